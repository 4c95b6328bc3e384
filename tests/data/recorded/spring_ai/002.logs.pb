
Ñ
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
1.49.0˜
E
Corg.springframework.boot.actuate.endpoint.web.EndpointLinksResolverO	Œ
#¿¥)êYc-¿¥)ê	INFO*3
1Exposing 1 endpoint beneath base path '/actuator'™
>
<org.springframework.boot.web.embedded.tomcat.TomcatWebServerW	Î±Ô¥)êYè¦Õ¥)ê	INFO*;
9Tomcat started on port 38547 (http) with context path '/'