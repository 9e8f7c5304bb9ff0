package chronolake.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import py4j.ClientServer;

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
  private static final int SESSIONS_MAX = 100;
  /** The request that ends before the thread that made it. */
  static final String WRITE_BATCH = "write_batch";

  /** The local property of a thread that has the group of its jobs. */
  private static final String JOB_GROUP = "spark.jobGroup.id";

  private static final int STOP_SECONDS_MAX = 60;
  private static final int CANCEL_MS = 200;
  private static PythonProcess running;

  private final String application;
  private final ClientServer gateway;
  private final Process process;
  private final Writer requests;
  private final AtomicLong numbers = new AtomicLong();
  private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
  /** The sessions that Python knows, the longest unused first. Spark does not say when one has ended. */
  private final Map<SparkSession, Known> sessions = new LinkedHashMap<>(16, 0.75f, true);

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
    gateway = new ClientServer.ClientServerBuilder()
                  .javaPort(0)
                  .javaAddress(InetAddress.getLoopbackAddress())
                  .authToken(secret)
                  .build();
    gateway.startServer();
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
      send(request()
              .put("port", gateway.getJavaServer().getListeningPort())
              .put("secret", secret)
              .put("build", build()));
    } catch (IOException e) {
      throw new UncheckedIOException("the Python process of the catalog did not start", e);
    }
    Thread answers = new Thread(this::takeAnswers, "chronolake-answers");
    answers.setDaemon(true);
    answers.start();
  }

  /** What this jar was made of: Python knows it of the jar that is installed with it. */
  private static String build() throws IOException {
    try (InputStream build = PythonProcess.class.getResourceAsStream("build")) {
      return build == null ? "" : new String(build.readAllBytes(), StandardCharsets.UTF_8);
    }
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

  /** The answer to a request of a session. Raises {@link Refusal} if the process refuses it. */
  JsonNode ask(SparkSession session, String operation, ObjectNode request) {
    Known known;
    synchronized (sessions) {
      known = sessions.computeIfAbsent(session, given -> new Known(lent(given)));
      known.requests++;
    }
    try {
      return ask(operation, request.put("session", known.name));
    } finally {
      synchronized (sessions) {
        known.requests--;
        forgetUnused();
      }
    }
  }

  private static final class Known {
    private final String name;
    private int requests;

    Known(String name) {
      this.name = name;
    }
  }

  private void forgetUnused() {
    var eldest = sessions.values().iterator();
    while (sessions.size() > SESSIONS_MAX && eldest.hasNext()) {
      Known known = eldest.next();
      if (known.requests == 0) {
        eldest.remove();
        gateway.getJavaServer().getGateway().deleteObject(known.name);
        try {
          send(request().put("forget", known.name));
        } catch (IOException e) {
          // The process has ended, so it knows no session any more.
        }
      }
    }
  }

  private JsonNode ask(String operation, ObjectNode request) {
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
      if (operation.equals(WRITE_BATCH)) {
        endBatch(answer);
      }
      Thread.currentThread().interrupt();
      throw new Refusal(Refusal.INTERRUPTED,
          "the statement was interrupted; what it has begun may end all the same: look at the timeline");
    } finally {
      waiting.remove(number);
    }
  }

  /** Cancels the jobs of a batch until it has ended: nothing of it comes after its query has stopped. */
  private static void endBatch(CompletableFuture<JsonNode> answer) {
    SparkContext context = SparkSession.active().sparkContext();
    String group = context.getLocalProperty(JOB_GROUP);
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(STOP_SECONDS_MAX);
    while (group != null && System.nanoTime() < end) {
      context.cancelJobGroup(group);
      try {
        answer.get(CANCEL_MS, TimeUnit.MILLISECONDS);
        return;
      } catch (ExecutionException e) {
        return;
      } catch (TimeoutException | InterruptedException e) {
        // Its next job is cancelled too.
      }
    }
  }

  private void send(ObjectNode line) throws IOException {
    synchronized (requests) {
      requests.write(JSON.writeValueAsString(line));
      requests.write('\n');
      requests.flush();
    }
  }

  /** Asks for something whose answer does not matter, if this process still runs. */
  static synchronized void tell(String operation, ObjectNode request) {
    if (running != null && running.process.isAlive()) {
      try {
        running.send(request.put("number", 0).put("operation", operation));
      } catch (IOException e) {
        // It has ended.
      }
    }
  }

  /** The name by which Python reaches an object of Java, until Python lets go of it. */
  String lent(Object object) {
    return gateway.getJavaServer().getGateway().putNewObject(object);
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
    return new Refusal("python-ended",
        "the Python process of the catalog has ended: its reason is in the driver's error output");
  }
}
