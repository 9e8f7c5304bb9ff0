package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import py4j.GatewayServer;

/**
 * The Python process of a Spark application that decides for the catalog: it asks the server, plans
 * reads, and runs writes in this application's sessions.
 *
 * <p>A request is a line of JSON on its standard input, an answer one on its standard output; both
 * have the request's number. Objects of Java, such as sessions, it reaches through Py4J. It ends
 * when its input ends, so also when this process is killed.
 */
final class PythonProcess {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final String MODULE = "chronolake_spark.catalogs.process";
  private static PythonProcess running;

  private final String application;
  private final GatewayServer gateway;
  private final Process process;
  private final Writer requests;
  private final AtomicLong numbers = new AtomicLong();
  private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
  private final Map<Object, String> kept = new IdentityHashMap<>();

  /** The process of this application, started at its first use, and again if it has ended. */
  static synchronized PythonProcess running(SparkContext context) {
    String application = context.applicationId();
    if (running != null && !running.application.equals(application)) {
      // A notebook may stop its context and start another one in the same JVM.
      running.process.destroy();
      running = null;
    }
    if (running == null || !running.process.isAlive()) {
      running = new PythonProcess(application, context.getConf());
    }
    return running;
  }

  static ObjectNode request() {
    return JSON.createObjectNode();
  }

  private PythonProcess(String application, SparkConf conf) {
    this.application = application;
    byte[] random = new byte[32];
    new SecureRandom().nextBytes(random);
    String secret = HexFormat.of().formatHex(random);
    gateway =
        new GatewayServer.GatewayServerBuilder()
            .javaPort(0)
            .javaAddress(InetAddress.getLoopbackAddress())
            .authToken(secret)
            .build();
    gateway.start();
    ProcessBuilder builder = new ProcessBuilder(python(conf), "-m", MODULE);
    Map<String, String> environment = builder.environment();
    addSparksPython(environment);
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    try {
      process = builder.start();
    } catch (IOException e) {
      gateway.shutdown();
      throw new UncheckedIOException(
          "the catalog needs Python with chronolake[spark]: set spark.pyspark.python to it", e);
    }
    requests = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
    try {
      // Not in the environment, which other programs may read.
      send(request().put("port", gateway.getListeningPort()).put("secret", secret));
    } catch (IOException e) {
      throw new UncheckedIOException("the Python process of the catalog did not start", e);
    }
    Thread answers = new Thread(this::takeAnswers, "chronolake-answers");
    answers.setDaemon(true);
    answers.start();
  }

  private static String python(SparkConf conf) {
    String variable = System.getenv().getOrDefault("PYSPARK_PYTHON", "python3");
    return conf.get("spark.pyspark.python", variable);
  }

  /** Lets the process import the PySpark of a distribution of Spark, unless it has its own. */
  private static void addSparksPython(Map<String, String> environment) {
    String home = System.getenv("SPARK_HOME");
    if (home == null) {
      return;
    }
    StringBuilder path = new StringBuilder(environment.getOrDefault("PYTHONPATH", ""));
    File[] libraries = new File(home, "python/lib").listFiles((folder, name) -> name.endsWith(".zip"));
    for (File library : libraries == null ? new File[0] : libraries) {
      path.append(File.pathSeparator).append(library);
    }
    environment.put("PYTHONPATH", path.toString());
  }

  /** The answer to a request. Raises {@link Refusal} if the process refuses it. */
  JsonNode ask(String operation, ObjectNode request) {
    long number = numbers.incrementAndGet();
    CompletableFuture<JsonNode> answer = new CompletableFuture<>();
    waiting.put(number, answer);
    request.put("number", number).put("operation", operation);
    try {
      send(request);
      JsonNode given = answer.get();
      if (given.has("refusal")) {
        throw Refusal.of(given.get("refusal"));
      }
      return given.get("result");
    } catch (IOException e) {
      throw ended();
    } catch (ExecutionException e) {
      throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Refusal(
          "interrupted",
          "the statement was interrupted; what it has begun may end all the same: look at the timeline");
    } finally {
      waiting.remove(number);
    }
  }

  private void send(ObjectNode line) throws IOException {
    synchronized (requests) {
      requests.write(JSON.writeValueAsString(line));
      requests.write('\n');
      requests.flush();
    }
  }

  /** The name by which Python reaches an object of Java, until this application ends. */
  String kept(Object object) {
    synchronized (kept) {
      return kept.computeIfAbsent(object, given -> gateway.getGateway().putNewObject(given));
    }
  }

  /** The same for one use: Python lets go of the object. */
  String lent(Object object) {
    return gateway.getGateway().putNewObject(object);
  }

  private void takeAnswers() {
    try (BufferedReader answers = process.inputReader(StandardCharsets.UTF_8)) {
      String line;
      while ((line = answers.readLine()) != null) {
        JsonNode answer = JSON.readTree(line);
        CompletableFuture<JsonNode> asked = waiting.get(answer.get("number").asLong());
        if (asked != null) {
          asked.complete(answer);
        }
      }
    } catch (IOException e) {
      // The process has ended: told below to all that wait.
    }
    process.destroy();
    gateway.shutdown();
    waiting.values().forEach(asked -> asked.completeExceptionally(ended()));
  }

  private static Refusal ended() {
    return new Refusal(
        "python-ended",
        "the Python process of the catalog has ended: its reason is in the driver's error output");
  }
}
