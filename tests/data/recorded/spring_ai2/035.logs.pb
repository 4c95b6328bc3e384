
ñ
˜
*
service.name
harbour-bikes-spring-ai2
 
telemetry.sdk.language
java
%
telemetry.sdk.name
opentelemetry
!
telemetry.sdk.version
1.62.0Ó
2
0org.springframework.boot.tomcat.GracefulShutdownc	~í>S*êY¡ðý>S*ê	INFO*G
ECommencing graceful shutdown. Waiting for active requests to complete8	…û*?S*êY¸j2?S*ê	INFO*
Graceful shutdown complete