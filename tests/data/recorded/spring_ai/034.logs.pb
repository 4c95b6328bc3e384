
ý
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
1.49.0à
?
=org.springframework.boot.web.embedded.tomcat.GracefulShutdownc	óQ”­K)êYk¢œ­K)ê	INFO*G
ECommencing graceful shutdown. Waiting for active requests to complete8	"¥Ñ­K)êYHÙ×­K)ê	INFO*
Graceful shutdown complete