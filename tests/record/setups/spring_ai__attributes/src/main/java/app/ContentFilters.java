package app;

import java.util.List;
import java.util.Map;
import java.util.Objects;

import io.micrometer.common.KeyValue;
import io.micrometer.observation.ObservationFilter;
import org.springframework.ai.chat.client.observation.ChatClientObservationContext;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.util.json.JsonParser;
import org.springframework.ai.vectorstore.observation.VectorStoreObservationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The question, the documents and the answer as attributes of the spans, each by a filter of its own. */
@Configuration
class ContentFilters {

    @Bean
    ObservationFilter questionInSpans() {
        return context -> {
            if (context instanceof ChatClientObservationContext client) {
                var asked = client.getRequest().prompt().getUserMessage().getText();
                context.addHighCardinalityKeyValue(KeyValue.of("gen_ai.input.messages",
                        JsonParser.toJson(List.of(Map.of("role", "user", "content", asked)))));
            }
            return context;
        };
    }

    @Bean
    ObservationFilter documentsInSpans() {
        return context -> {
            if (context instanceof VectorStoreObservationContext search && search.getQueryResponse() != null) {
                var found = search.getQueryResponse().stream().map(one -> Map.of("id", one.getId(),
                        "content", Objects.toString(one.getText(), ""), "metadata", one.getMetadata())).toList();
                context.addHighCardinalityKeyValue(KeyValue.of("gen_ai.retrieval.documents", JsonParser.toJson(found)));
            }
            return context;
        };
    }

    @Bean
    ObservationFilter answerInSpans() {
        return context -> {
            if (context instanceof ChatModelObservationContext model && model.getResponse() != null
                    && model.getResponse().getResult() != null) {
                var said = Objects.toString(model.getResponse().getResult().getOutput().getText(), "");
                context.addHighCardinalityKeyValue(KeyValue.of("gen_ai.output.messages",
                        JsonParser.toJson(List.of(Map.of("role", "assistant", "content", said)))));
            }
            return context;
        };
    }

    @Bean
    ObservationFilter promptInSpans() {
        return context -> {
            if (context instanceof ChatModelObservationContext model) {
                var sent = model.getRequest().getInstructions().stream().map(one -> Map.of("role",
                        one.getMessageType().getValue(), "content", Objects.toString(one.getText(), ""))).toList();
                context.addHighCardinalityKeyValue(KeyValue.of("gen_ai.input.messages", JsonParser.toJson(sent)));
            }
            return context;
        };
    }
}
