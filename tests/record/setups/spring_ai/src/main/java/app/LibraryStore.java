package app;

import java.util.List;

import io.micrometer.observation.ObservationRegistry;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.vectorstore.SearchRequest;
import org.springframework.ai.vectorstore.SimpleVectorStore;

/** Spring AI's own store, which embeds the query; what is near is told by the library, for the embeddings are made up. */
class LibraryStore extends SimpleVectorStore {

    private final Library library;

    LibraryStore(EmbeddingModel embeddings, ObservationRegistry observations, Library library) {
        super(SimpleVectorStore.builder(embeddings).observationRegistry(observations));
        this.library = library;
    }

    @Override
    public List<Document> doSimilaritySearch(SearchRequest request) {
        super.doSimilaritySearch(request);
        return library.search(request.getQuery());
    }
}
