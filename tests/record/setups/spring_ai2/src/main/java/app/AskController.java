package app;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.MessageChatMemoryAdvisor;
import org.springframework.ai.chat.client.advisor.api.Advisor;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.rag.Query;
import org.springframework.ai.rag.advisor.RetrievalAugmentationAdvisor;
import org.springframework.ai.rag.generation.augmentation.ContextualQueryAugmenter;
import org.springframework.ai.rag.retrieval.search.VectorStoreDocumentRetriever;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.ai.vectorstore.VectorStore;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;

/** One question in, one answer out, by each of the ways that Spring AI has for it. */
@RestController
public class AskController {

    private static final Logger log = LoggerFactory.getLogger(AskController.class);

    record Ask(String question, String session) {
    }

    private final ChatClient augmentation;
    private final ChatClient agent;
    private final VectorStore store;

    AskController(ChatClient.Builder builder, ChatMemory memory, VectorStore store, Library library) {
        this.store = store;
        builder.defaultSystem("Answer from the context only.");
        augmentation = with(builder, memory, RetrievalAugmentationAdvisor.builder()
                .queryExpander(query -> searches(library, query))
                .documentRetriever(VectorStoreDocumentRetriever.builder().vectorStore(store).build())
                .queryAugmenter(ContextualQueryAugmenter.builder().allowEmptyContext(true).build())
                .build());
        agent = builder.clone().defaultTools(this).build();
    }

    private static ChatClient with(ChatClient.Builder builder, ChatMemory memory, Advisor advisor) {
        return builder.clone().defaultAdvisors(MessageChatMemoryAdvisor.builder(memory).build(), advisor).build();
    }

    @SuppressWarnings("unchecked")
    private static List<Query> searches(Library library, Query query) {
        var asked = library.withQuestion(query.text());
        var searches = (List<Map<String, Object>>) asked.getOrDefault("searches", List.of());
        List<Query> queries = new ArrayList<>();
        searches.forEach(one -> queries.add(new Query((String) one.get("query"))));
        return queries.isEmpty() ? List.of(query) : queries;
    }

    @PostMapping("/augmentation/stream")
    Flux<String> stream(@RequestBody Ask ask) {
        return prompt(augmentation, ask).stream().content();
    }

    @PostMapping("/augmentation")
    String augmentation(@RequestBody Ask ask) {
        return prompt(augmentation, ask).call().content();
    }

    @PostMapping("/agent")
    String agent(@RequestBody Ask ask) {
        return prompt(agent, ask).call().content();
    }

    private ChatClient.ChatClientRequestSpec prompt(ChatClient client, Ask ask) {
        log.info("a question of {} characters", ask.question().length());
        return client.prompt().user(ask.question())
                .advisors(advisors -> advisors.param(ChatMemory.CONVERSATION_ID, ask.session()));
    }

    @Tool(name = "search_help", description = "Finds pages of the help center.")
    List<String> search(String query) {
        return store.similaritySearch(query).stream().map(one -> one.getText()).toList();
    }
}
