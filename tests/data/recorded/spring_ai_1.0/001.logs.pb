
∂
õ
-
service.name
harbour-bikes-spring-ai-1.0
 
telemetry.sdk.language
java
%
telemetry.sdk.name
opentelemetry
!
telemetry.sdk.version
1.49.0ï
f
dorg.springframework.ai.vectorstore.observation.autoconfigure.VectorStoreObservationAutoConfiguration™	@Îã»*ÍY±I»*ÍWARN*ç
äYou have enabled logging out of the query response content with the risk of exposing sensitive or private information. Please, be careful!