
—
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
1.49.0{
?
=org.springframework.boot.web.embedded.tomcat.GracefulShutdown8	âÇo_©)êYföv_©)ê	INFO*
Graceful shutdown complete