
ê
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
1.49.0•
A
?org.apache.catalina.core.ContainerBase.[Tomcat].[localhost].[/]P	@ÌŸJF)êYŠHb¤G)ê	INFO*4
2Initializing Spring embedded WebApplicationContext§
^
\org.springframework.ai.model.chat.observation.autoconfigure.ChatObservationAutoConfigurationž	À[2£F)êY.Ôb¤G)êWARN*
You have enabled logging out the prompt content with the risk of exposing sensitive or private information. Please, be careful!£	€+£F)êYÊõb¤G)êWARN*†
ƒYou have enabled logging out the completion content with the risk of exposing sensitive or private information. Please, be careful!•
f
dorg.springframework.ai.vectorstore.observation.autoconfigure.VectorStoreObservationAutoConfigurationª	À‘ ¤F)êYm!c¤G)êWARN*
ŠYou have enabled logging out of the query response content with the risk of exposing sensitive or private information. Please, be careful!­

app.Application´	@-í=E)êYvõF¢G)ê	INFO*—
”Starting Application v1 using Java 17.0.15 with PID 26819 (/srv/app-------/spring_ai/target/help-1.jar started by root in /srv/app-------/spring_ai)a	Àð¶?E)êY*ö`¤G)ê	INFO*E
CNo active profile set, falling back to 1 default profile: "default"²
Q
Oorg.springframework.boot.web.servlet.context.ServletWebServerApplicationContext]	€¯JF)êYísb¤G)ê	INFO*A
?Root WebApplicationContext: initialization completed in 4241 mse
*
(org.apache.catalina.core.StandardService7	€^=?F)êYýîa¤G)ê	INFO*
Starting service [Tomcat]ƒ
T
Rorg.springframework.ai.model.chat.client.autoconfigure.ChatClientAutoConfigurationª	@³¢F)êYßªb¤G)êWARN*
ŠYou have enabled logging out the ChatClient prompt content with the risk of exposing sensitive or private information. Please, be careful!œ
N
Lorg.springframework.ai.model.tool.autoconfigure.ToolCallingAutoConfigurationÉ	@:³¥F)êYFKc¤G)êWARN*¬
©You have enabled the inclusion of the tool call arguments and result in the observations, with the risk of exposing sensitive or private information. Please, be careful!{
)
'org.apache.catalina.core.StandardEngineN	€p·?F)êYb¤G)ê	INFO*2
0Starting Servlet engine: [Apache Tomcat/10.1.52]…
>
<org.springframework.boot.web.embedded.tomcat.TomcatWebServerC	€Îl;F)êY÷¸a¤G)ê	INFO*'
%Tomcat initialized with port 0 (http)