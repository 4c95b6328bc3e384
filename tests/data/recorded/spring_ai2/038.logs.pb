
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
0org.springframework.boot.tomcat.GracefulShutdownc	õÌ®Ä)êY}Ú®Ä)ê	INFO*G
ECommencing graceful shutdown. Waiting for active requests to complete8	YÍ¯Ä)êYQ8¯Ä)ê	INFO*
Graceful shutdown complete