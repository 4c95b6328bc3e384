// The Vercel AI SDK 7: telemetry is a package of its own, in OpenTelemetry's words or, as before, in the SDK's.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { LegacyOpenTelemetry, OpenTelemetry } from "@ai-sdk/otel";
import { SpanKind, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, isStepCount, registerTelemetry, rerank, streamText, tool } from "ai";
import { z } from "zod";

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();
const tracer = trace.getTracer("harbour-bikes");
const session = ({ runtimeContext }) => ({ "session.id": runtimeContext?.sessionId });
registerTelemetry(new OpenTelemetry({ enrichSpan: session, reranking: true }));
const legacy = new LegacyOpenTelemetry();
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
const model = openai.chat("gpt-4o-mini");
const TWO_CALLS = 230; // tokens: the model asks for its tool, then answers
const ROLE = "You help the customers of a bike rental. Answer from the help pages only.";

const library = JSON.parse(readFileSync(process.env.LIBRARY));
const byName = (name) => library.cases.find((one) => one.name === name);

function search(query) {
  const searches = library.cases.flatMap((one) => [
    ...(one.searches ?? []),
    { query: one.question, documents: one.documents },
    { query: one.search_query, documents: one.documents },
  ]);
  const ids = searches.find((one) => one.query === query).documents;
  return ids.map((id) => library.documents.find((one) => one.id === id));
}

async function asked(one, facts) {
  await provider.forceFlush();
  const body = JSON.stringify({ case: one.name, ...facts });
  const told = await fetch(process.env.FACTS_URL, { method: "POST", body });
  if (!told.ok) throw new Error(await told.text());
}

const asText = (hits) => hits.map((hit, at) => `[${at + 1}] ${hit.text}`).join("\n\n");

function lookUp(write = (hits) => hits) {
  return tool({
    description: "Find help pages.",
    inputSchema: z.object({ query: z.string() }),
    execute: async ({ query }) => write(search(query)),
  });
}

async function agent(one, { write, telemetry } = {}) {
  const options = {
    model,
    instructions: ROLE,
    messages: [...one.history, { role: "user", content: one.question }],
    tools: { lookUp: lookUp(write) },
    stopWhen: isStepCount(3),
    maxRetries: 0,
    runtimeContext: { sessionId: one.session },
    telemetry: { functionId: "help-desk", includeRuntimeContext: { sessionId: true }, ...telemetry },
  };
  if (one.stream) await streamText(options).text;
  else await generateText(options);
}

const reranker = {
  specificationVersion: "v4",
  provider: "harbour",
  modelId: "turn-around",
  doRerank: async ({ documents, topN }) => ({
    ranking: documents.values.map((_, index) => ({ index, relevanceScore: 0.4 + index / 10 })).reverse().slice(0, topN),
  }),
};

// Naive RAG behind HTTP, with a reranker that turns the order around and keeps two of the hits.
async function naive(one) {
  await tracer.startActiveSpan("POST /chat", { kind: SpanKind.SERVER }, async (span) => {
    const hits = search(one.search_query);
    const { rerankedDocuments } = await rerank({
      model: reranker,
      query: one.search_query,
      documents: hits.map((hit) => hit.text),
      topN: 2,
    });
    const context = asText(rerankedDocuments.map((text) => ({ text })));
    await generateText({
      model,
      instructions: ROLE,
      messages: [...one.history, { role: "user", content: `Context:\n${context}\n\nQuestion: ${one.question}` }],
      runtimeContext: { sessionId: one.session },
      telemetry: { includeRuntimeContext: { sessionId: true } },
    });
    span.setAttribute("http.response.status_code", 200);
    span.end();
  });
}

for (const one of library.cases) {
  try {
    await agent(one);
  } catch (error) {
    console.log(error.name); // the model refuses one of the cases
  }
  await asked(one, { flavour: "tool", total_tokens: TWO_CALLS });
}

for (const name of ["follow_up", "empty"]) {
  await agent(byName(name), { write: (hits) => asText(hits) || "No results found." });
  await asked(byName(name), { flavour: "text_tool", total_tokens: TWO_CALLS });
}

const kept = ["doc-06", "doc-01"].map((id) => library.documents.find((one) => one.id === id).text);
await naive(byName("follow_up"));
await asked(byName("follow_up"), { flavour: "reranked", contexts: kept });

// The spans of version 6, from version 7.
await agent(byName("follow_up"), { telemetry: { integrations: legacy } });
await asked(byName("follow_up"), { flavour: "legacy_tool", total_tokens: TWO_CALLS });
await agent(byName("streaming"), { telemetry: { integrations: legacy } });
await asked(byName("streaming"), { flavour: "legacy_tool", total_tokens: TWO_CALLS });

await agent(byName("plain"), { telemetry: { recordInputs: false, recordOutputs: false } });
await asked(byName("plain"), { flavour: "unrecorded", status: "content_missing" });
await provider.shutdown();
