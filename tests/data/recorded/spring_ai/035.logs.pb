
Ã
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
1.49.0¦
?
=org.springframework.boot.web.embedded.tomcat.GracefulShutdownc	¶Hè^©)êYx`ñ^©)ê	INFO*G
ECommencing graceful shutdown. Waiting for active requests to complete