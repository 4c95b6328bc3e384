
ú
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
1.62.0œ
A
?org.apache.catalina.core.ContainerBase.[Tomcat].[localhost].[/]W	~ê	Q*êY¼÷‹	Q*ê	INFO*;
9Initializing Spring DispatcherServlet 'dispatcherServlet'½
3
1org.springframework.web.servlet.DispatcherServletF	ãæŽ	Q*êY¢Á’	Q*ê	INFO**
(Initializing Servlet 'dispatcherServlet'>	\C³	Q*êY˜º	Q*ê	INFO*"
 Completed initialization in 2 ms