package app;

import java.util.List;
import java.util.Map;

import io.micrometer.common.KeyValue;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationFilter;
import org.springframework.ai.chat.client.observation.ChatClientObservationContext;
import org.springframework.ai.chat.messages.Message;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.util.json.JsonParser;
import org.springframework.ai.vectorstore.observation.VectorStoreObservationContext;
import org.springframework.stereotype.Component;

/** Prompts, answers and retrieved documents as JSON in attributes of the spans: the keys of OpenTelemetry. */
@Component
class ContentInSpans implements ObservationFilter {

    @Override
    public Observation.Context map(Observation.Context context) {
        if (context instanceof ChatClientObservationContext client) {
            add(context, "gen_ai.input.messages", messages(client.getRequest().prompt().getInstructions()));
        }
        if (context instanceof ChatModelObservationContext model) {
            add(context, "gen_ai.input.messages", messages(model.getRequest().getInstructions()));
            if (model.getResponse() != null && model.getResponse().getResult() != null) {
                add(context, "gen_ai.output.messages", messages(List.of(model.getResponse().getResult().getOutput())));
            }
        }
        if (context instanceof VectorStoreObservationContext search && search.getQueryResponse() != null) {
            add(context, "gen_ai.retrieval.documents", search.getQueryResponse().stream().map(one -> Map.of(
                    "id", one.getId(), "content", text(one.getText()), "score", score(one.getScore()),
                    "metadata", one.getMetadata())).toList());
        }
        return context;
    }

    private static List<?> messages(List<? extends Message> messages) {
        return messages.stream().map(one -> Map.of("role", one.getMessageType().getValue(), "parts",
                List.of(Map.of("type", "text", "content", text(one.getText()))))).toList();
    }

    private static String text(String text) {
        return text == null ? "" : text;
    }

    private static double score(Double score) {
        return score == null ? 0 : score;
    }

    private static void add(Observation.Context context, String key, Object value) {
        context.addHighCardinalityKeyValue(KeyValue.of(key, JsonParser.toJson(value)));
    }
}
