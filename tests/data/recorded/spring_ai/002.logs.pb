
È
—
)
service.name
harbour-bikes-spring-ai
 
telemetry.sdk.language
java
%
telemetry.sdk.name
opentelemetry
!
telemetry.sdk.version
1.49.0u

app.Application`	“vaH)êYU‰aH)ê	INFO*D
BStarted Application in 15.289 seconds (process running for 16.229)˜
E
Corg.springframework.boot.actuate.endpoint.web.EndpointLinksResolverO	áì#ZH)êY=/ZH)ê	INFO*3
1Exposing 1 endpoint beneath base path '/actuator'™
>
<org.springframework.boot.web.embedded.tomcat.TomcatWebServerW	äáñ^H)êYcê_H)ê	INFO*;
9Tomcat started on port 41509 (http) with context path '/'