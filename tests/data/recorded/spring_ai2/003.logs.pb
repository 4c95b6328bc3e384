
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
?org.apache.catalina.core.ContainerBase.[Tomcat].[localhost].[/]W	ÈXÜïÁ)êYİëïÁ)ê	INFO*;
9Initializing Spring DispatcherServlet 'dispatcherServlet'½
3
1org.springframework.web.servlet.DispatcherServletF	14ğïÁ)êYĞöïÁ)ê	INFO**
(Initializing Servlet 'dispatcherServlet'>	±¹KğÁ)êYN?PğÁ)ê	INFO*"
 Completed initialization in 6 ms