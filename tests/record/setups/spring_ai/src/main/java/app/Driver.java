package app;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.messages.UserMessage;
import org.springframework.ai.util.json.JsonParser;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.stereotype.Component;

/** Asks the cases of the library over HTTP, as users would, reports each, and ends the application. */
@Component
class Driver implements ApplicationRunner {

    private final HttpClient http = HttpClient.newHttpClient();
    private final ConfigurableApplicationContext application;
    private final Library library;
    private final ChatMemory memory;

    Driver(ConfigurableApplicationContext application, Library library, ChatMemory memory) {
        this.application = application;
        this.library = library;
        this.memory = memory;
    }

    @Override
    public void run(ApplicationArguments arguments) throws Exception {
        String address = "http://127.0.0.1:" + property("local.server.port") + "/";
        for (String flavour : List.of("question_answer", "augmentation", "agent")) {
            List<String> asked = List.of(property("asked." + flavour).split(","));
            for (var one : library.cases()) {
                if (asked.contains(one.get("name"))) {
                    remember(one);
                    String path = flavour + (one.containsKey("stream") ? "/stream" : "");
                    post(address + path, Map.of("question", one.get("question"), "session", one.get("session")));
                    report(flavour, one);
                }
            }
        }
        new Thread(() -> System.exit(SpringApplication.exit(application))).start();
    }

    @SuppressWarnings("unchecked")
    private void remember(Map<String, Object> asked) {
        String session = (String) asked.get("session");
        memory.clear(session);
        for (var turn : (List<Map<String, String>>) asked.get("history")) {
            String text = turn.get("content");
            memory.add(session, turn.get("role").equals("user") ? new UserMessage(text) : new AssistantMessage(text));
        }
    }

    private void report(String flavour, Map<String, Object> asked) throws Exception {
        Map<String, Object> facts = new HashMap<>(Map.of("case", asked.get("name"), "flavour", flavour));
        if (flavour.equals("agent")) {
            facts.put("total_tokens", 2 * 115);
        }
        if (!property("facts.status").isEmpty() && !asked.containsKey("error")) {
            facts.put("status", property("facts.status"));
        }
        post(System.getenv("FACTS_URL"), facts);
    }

    private String property(String name) {
        return application.getEnvironment().getProperty(name, "");
    }

    private void post(String address, Map<String, Object> body) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(address)).header("content-type", "application/json")
                .timeout(Duration.ofSeconds(60)).POST(BodyPublishers.ofString(JsonParser.toJson(body))).build();
        System.out.println(address + " " + http.send(request, BodyHandlers.ofString()).body());
    }
}
