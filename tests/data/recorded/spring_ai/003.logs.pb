
ù
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
1.49.0½
3
1org.springframework.web.servlet.DispatcherServletF	ùCW‹H)êYTùY‹H)ê	INFO**
(Initializing Servlet 'dispatcherServlet'>	nÚy‹H)êY‹H)ê	INFO*"
 Completed initialization in 2 msœ
A
?org.apache.catalina.core.ContainerBase.[Tomcat].[localhost].[/]W	è7‹H)êY×S‹H)ê	INFO*;
9Initializing Spring DispatcherServlet 'dispatcherServlet'