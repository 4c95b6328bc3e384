// Sends COUNT spans (or log records) by the OpenTelemetry SDK and prints what the exporter says of each batch.
// node send.cjs {http|proto|grpc|logs} URL {none|gzip} COUNT [TOKEN]
"use strict";
const [, , transport, url, compression, count, token] = process.argv;
const headers = token ? { authorization: `Bearer ${token}` } : {};

function traceExporter() {
  const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${transport}`);
  if (transport !== "grpc") return new OTLPTraceExporter({ url, compression, headers });
  const { Metadata } = require("@grpc/grpc-js");
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  return new OTLPTraceExporter({ url, compression, metadata });
}

function observed(exporter) {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    send(items, (result) => {
      console.log(JSON.stringify({ items: items.length, code: result.code, error: String(result.error ?? "") }));
      done(result);
    });
  return exporter;
}

async function main() {
  if (transport === "logs") {
    const { OTLPLogExporter } = require("@opentelemetry/exporter-logs-otlp-proto");
    const { BatchLogRecordProcessor, LoggerProvider } = require("@opentelemetry/sdk-logs");
    const exporter = observed(new OTLPLogExporter({ url, compression, headers }));
    const provider = new LoggerProvider({ processors: [new BatchLogRecordProcessor({ exporter })] });
    for (let i = 0; i < Number(count); i++) provider.getLogger("test").emit({ body: `record ${i}` });
    return provider.shutdown();
  }
  const { BatchSpanProcessor, TracerProvider } = require("@opentelemetry/sdk-trace");
  const exporter = observed(traceExporter());
  const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] });
  const tracer = provider.getTracer("test");
  for (let i = 0; i < Number(count); i++) {
    tracer.startSpan(`span ${i}`, { attributes: { "input.value": "wörter", number: i, list: [1.5, 2] } }).end();
  }
  return provider.shutdown();
}

// A batch that failed makes shutdown fail as well; what came of it has been printed by then.
main().catch((error) => console.error(error));
