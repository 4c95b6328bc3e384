// The Vercel AI SDK: an agent with a tool, and naive RAG with and without spans of the application's own.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { SpanKind, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { embed, generateText, rerank, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();
const tracer = trace.getTracer("harbour-bikes");
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
  return ids.map((id, at) => {
    const { uri, text } = library.documents.find((one) => one.id === id);
    return { id, url: uri, content: text, score: Number((0.91 - 0.17 * at).toFixed(2)) };
  });
}

async function asked(one, facts) {
  await provider.forceFlush();
  const body = JSON.stringify({ case: one.name, ...facts });
  const told = await fetch(process.env.FACTS_URL, { method: "POST", body });
  if (!told.ok) throw new Error(await told.text());
}

const telemetry = (one, also) => ({
  isEnabled: true,
  functionId: "help-desk",
  metadata: { sessionId: one.session, tier: "gold" },
  ...also,
});

const asText = (hits) => hits.map((hit, at) => `[${at + 1}] ${hit.content}`).join("\n\n");

function lookUp(write = (hits) => hits) {
  return tool({
    description: "Find help pages.",
    inputSchema: z.object({ query: z.string() }),
    execute: async ({ query }) => write(search(query)),
  });
}

async function agent(one, { tools = { lookUp: lookUp() }, record } = {}) {
  const options = {
    model,
    system: ROLE,
    messages: [...one.history, { role: "user", content: one.question }],
    tools,
    stopWhen: stepCountIs(3),
    maxRetries: 0,
    experimental_telemetry: telemetry(one, record),
  };
  if (one.stream) await streamText(options).text;
  else await generateText(options);
}

// Naive RAG: `retrieve` finds the hits, the prompt holds them.
async function naive(one, retrieve) {
  const hits = await retrieve(one.search_query ?? one.question);
  const content = `Context:\n${asText(hits)}\n\nQuestion: ${one.question}`;
  const messages = [...one.history, { role: "user", content }];
  await generateText({ model, system: ROLE, messages, maxRetries: 0, experimental_telemetry: telemetry(one) });
}

const inSpan = (name, attributes, body) => tracer.startActiveSpan(name, { attributes }, async (span) => {
  try {
    return await body(span);
  } finally {
    span.end();
  }
});

const withEmbedding = (one) => async (query) => {
  await embed({ model: openai.embedding("text-embedding-3-small"), value: query, experimental_telemetry: telemetry(one) });
  await provider.forceFlush(); // so that the harness can tell the embedding's trace from the answer's
  return search(query);
};

// The retrieval in OpenInference's words, as Phoenix and Arize ask for it.
const inOpenInference = (query) =>
  inSpan("retrieve", { "openinference.span.kind": "RETRIEVER", "input.value": query }, async (span) => {
    const hits = search(query);
    hits.forEach((hit, at) => {
      span.setAttribute(`retrieval.documents.${at}.document.id`, hit.id);
      span.setAttribute(`retrieval.documents.${at}.document.content`, hit.content);
      span.setAttribute(`retrieval.documents.${at}.document.score`, hit.score);
    });
    if (!hits.length) span.setAttribute("retrieval.documents", []);
    return hits;
  });

// The retrieval in OpenTelemetry's words.
const inGenAI = (query) =>
  inSpan("retrieval help_pages", { "gen_ai.operation.name": "retrieval" }, async (span) => {
    const hits = search(query);
    span.setAttribute("gen_ai.retrieval.query.text", query);
    span.setAttribute("gen_ai.retrieval.documents", JSON.stringify(hits));
    return hits;
  });

// The retrieval in the application's own words, which nobody else knows.
const inOwnWords = (query) =>
  inSpan("search help pages", { "search.query": query }, async (span) => {
    const hits = search(query);
    span.setAttribute("search.hits", hits.length);
    return hits;
  });

// A reranker that turns the order around and keeps two of the hits.
const reranker = {
  specificationVersion: "v3",
  provider: "harbour",
  modelId: "turn-around",
  doRerank: async ({ documents, topN }) => ({
    ranking: documents.values.map((_, index) => ({ index, relevanceScore: 0.4 + index / 10 })).reverse().slice(0, topN),
  }),
};
const reranked = (one) => async (query) => {
  const hits = search(query);
  const { rerankedDocuments } = await rerank({
    model: reranker,
    query,
    documents: hits.map((hit) => hit.content),
    topN: 2,
    experimental_telemetry: telemetry(one),
  });
  return rerankedDocuments.map((content) => ({ content }));
};

const served = (body) =>
  tracer.startActiveSpan("POST /chat", { kind: SpanKind.SERVER, attributes: { "http.request.method": "POST" } }, async (span) => {
    try {
      await inSpan("load profile", { "customer.tier": "gold" }, async () => {});
      return await body();
    } finally {
      span.setAttribute("http.response.status_code", 200);
      span.end();
    }
  });

for (const one of library.cases) {
  try {
    await agent(one);
  } catch (error) {
    console.log(error.name); // the model refuses one of the cases
  }
  await asked(one, { flavour: "tool", total_tokens: TWO_CALLS });
}

const text = { lookUp: lookUp((hits) => asText(hits) || "No results found.") };
for (const name of ["follow_up", "empty"]) {
  await agent(byName(name), { tools: text });
  await asked(byName(name), { flavour: "text_tool", total_tokens: TWO_CALLS });
}

await served(() => agent(byName("plain")));
await asked(byName("plain"), { flavour: "served_tool", total_tokens: TWO_CALLS });

for (const [flavour, retrieve, name] of [
  ["served_openinference", inOpenInference, "follow_up"],
  ["served_openinference", inOpenInference, "empty"],
  ["served_gen_ai", inGenAI, "plain"],
  ["served_gen_ai", inGenAI, "error"],
  ["served_own_words", inOwnWords, "follow_up"],
]) {
  await served(() => naive(byName(name), retrieve)).catch((error) => console.log(error.name));
  await asked(byName(name), { flavour });
}

// Each call of the SDK is a trace of its own where the application has no span around them: the embedding is another.
await naive(byName("follow_up"), withEmbedding(byName("follow_up")));
await asked(byName("follow_up"), { flavour: "no_own_span" });
const kept = ["doc-06", "doc-01"].map((id) => library.documents.find((one) => one.id === id).text);
await served(() => naive(byName("follow_up"), reranked(byName("follow_up"))));
await asked(byName("follow_up"), { flavour: "reranked", contexts: kept });

await agent(byName("plain"), { record: { recordInputs: false, recordOutputs: false } });
await asked(byName("plain"), { flavour: "unrecorded", status: "content_missing" });
await agent(byName("plain"), { record: { recordInputs: false } });
await asked(byName("plain"), { flavour: "unrecorded_inputs", status: "content_missing" });
await provider.shutdown();
