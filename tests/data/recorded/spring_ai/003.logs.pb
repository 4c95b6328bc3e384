
‘
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
1.49.0u

app.Application`	Ã1Ü¥)êY‰	Ü¥)ê	INFO*D
BStarted Application in 21.958 seconds (process running for 23.138)