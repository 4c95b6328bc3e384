// The Vercel AI SDK behind OpenTelemetry's whole Node SDK, exported as OTLP/JSON: an agent class with a tool.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { generateText, stepCountIs, tool, ToolLoopAgent } from "ai";
import { z } from "zod";

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter(), metricReaders: [], logRecordProcessors: [] });
sdk.start();
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
const model = openai.chat("gpt-4o-mini");
const TWO_CALLS = 230; // tokens: the model asks for its tool, then answers

const library = JSON.parse(readFileSync(process.env.LIBRARY));

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
  const body = JSON.stringify({ case: one.name, ...facts });
  const told = await fetch(process.env.FACTS_URL, { method: "POST", body });
  if (!told.ok) throw new Error(await told.text());
}

async function ask(one) {
  const agent = new ToolLoopAgent({
    model,
    instructions: "You help the customers of a bike rental. Answer from the help pages only.",
    tools: {
      readHelp: tool({
        description: "Find help pages.",
        inputSchema: z.object({ query: z.string() }),
        execute: async ({ query }) => ({ pages: search(query).map(({ uri, text }) => ({ title: uri, excerpt: text })) }),
      }),
    },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
    experimental_telemetry: { isEnabled: true, metadata: { session_id: one.session, user_id: "u-7" } },
  });
  const messages = [...one.history, { role: "user", content: one.question }];
  if (one.stream) await (await agent.stream({ messages })).text;
  else await agent.generate({ messages });
}

for (const one of library.cases) {
  try {
    await ask(one);
  } catch (error) {
    console.log(error.name); // the model refuses one of the cases
  }
  await asked(one, { flavour: "agent", total_tokens: TWO_CALLS });
}

// Naive RAG with a bare prompt: what was found stands in the system prompt.
for (const name of ["plain", "empty"]) {
  const one = library.cases.find((found) => found.name === name);
  const pages = search(one.question).map(({ text }) => `<document>${text}</document>`).join("\n");
  await trace.getTracer("harbour-bikes").startActiveSpan("answer", async (span) => {
    await generateText({
      model,
      system: `Answer from the documents only.\n\n<context>\n${pages}\n</context>`,
      prompt: one.question,
      experimental_telemetry: { isEnabled: true, metadata: { sessionId: one.session } },
    });
    span.end();
  });
  await asked(one, { flavour: "prompt" });
}
await sdk.shutdown();
