package app;

import io.micrometer.observation.ObservationRegistry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.instrumentation.logback.appender.v1_0.OpenTelemetryAppender;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.vectorstore.VectorStore;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** A help desk behind HTTP that answers from a vector store; {@link Driver} asks it. */
@SpringBootApplication
public class Application {

    public static void main(String[] args) {
        SpringApplication.run(Application.class, args);
    }

    @Bean
    VectorStore vectorStore(EmbeddingModel embeddings, ObservationRegistry observations, Library library) {
        return new LibraryStore(embeddings, observations, library);
    }

    /** Spring Boot makes the exporter of log records; handing it to the appender is left to the application. */
    @Bean
    InitializingBean logs(OpenTelemetry telemetry) {
        return () -> OpenTelemetryAppender.install(telemetry);
    }
}
