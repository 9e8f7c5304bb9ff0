package chronolake;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.sink2.InitContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/** The requests of one stream. The server is the coordinator of the job; each task has a client of its own. */
final class Coordinator implements AutoCloseable {
    private static final int LEASE_SECONDS = 60;
    private static final int RECONCILIATIONS_MAX = 10_000;

    final JsonNode table;
    final TableFolder folder;
    private final Server server;
    private final String path;
    private final String name;
    private final String stream;
    private ScheduledExecutorService heartbeats;
    private String job;
    private int tasks;
    private long epoch;

    Coordinator(String url, String table, String stream) throws IOException {
        this.server = new Server(url);
        this.path = "/v1/tables/" + table;
        this.name = stream;
        this.stream = this.path + "/streams/" + stream;
        this.table = this.server.openTable(this.path);
        this.folder = new TableFolder(this.table);
    }

    /** Where a task of this job is that has passed the barrier. */
    StreamPosition position(long checkpoint) {
        return new StreamPosition(this.job, this.tasks, this.epoch, checkpoint);
    }

    /**
     * Learn the epoch of the stream, and open it if this job has not.
     *
     * <p>Flink 2 has no hook that runs once per job. So every task sends the same opening under the same idempotency
     * key, and all get the answer to the first: one epoch. A task that restarts has the epoch in its state, or sends
     * the same opening again. A job that is restored in another process, or with more or fewer tasks, is another one.
     *
     * @param known what the task has in its state, or null
     */
    void join(InitContext context, StreamPosition known) throws IOException {
        if (this.job != null) {
            return;
        }
        String thisJob = context.getJobInfo().getJobId().toString();
        int thisMany = context.getTaskInfo().getNumberOfParallelSubtasks();
        if (known != null && known.job().equals(thisJob) && known.tasks() == thisMany) {
            this.epoch = known.epoch();
        } else {
            this.epoch = this.open(thisJob, thisMany, context.getRestoredCheckpointId());
        }
        this.job = thisJob;
        this.tasks = thisMany;
    }

    private long open(String thisJob, int thisMany, OptionalLong restored) throws IOException {
        ObjectNode body = Server.JSON.createObjectNode();
        body.put("writer", "flink-" + thisJob).put("lease_seconds", LEASE_SECONDS).put("tasks", thisMany);
        restored.ifPresent(checkpoint -> body.put("restored_checkpoint", checkpoint));
        // Not the table's name, which may change.
        String opening = this.table.get("table_id").asText() + "/" + this.name + body;
        UUID key = UUID.nameUUIDFromBytes(opening.getBytes(StandardCharsets.UTF_8));
        long opened = this.server.post(this.stream + "/open", body, key).get("epoch").asLong();
        if (restored.isPresent()) {
            // The job before may have been killed after the checkpoint, but before it said that it is complete.
            this.complete(opened, restored.getAsLong());
        }
        return opened;
    }

    /** The attempt of a task that begins. What it has reported behind the checkpoint counts no more: it comes again. */
    long restartTask(String task, OptionalLong restored) throws IOException {
        ObjectNode body = this.body(this.epoch).put("task", task);
        restored.ifPresent(checkpoint -> body.put("restored_checkpoint", checkpoint));
        return this.server.post(this.stream + "/restart-task", body).get("attempt").asLong();
    }

    /** The instant for the files that the task writes behind a barrier. */
    JsonNode instant(String task, long attempt, long checkpoint) throws IOException {
        ObjectNode body = this.body(this.epoch).put("task", task).put("attempt", attempt);
        body.put("checkpoint", checkpoint).put("operation", "upsert");
        // The refusal instant-not-yet means that a hundred checkpoints were not acknowledged. Waiting for that here
        // would be for ever, because this thread delivers the acknowledgements too. The task fails, and is restored.
        JsonNode given = this.server.post(this.stream + "/instants", body);
        JsonNode instant = this.server.get(this.path + "/instants/" + given.get("requested_time").asText());
        if (!instant.get("schema_version").equals(this.table.get("schema_version"))
                || !instant.get("buckets").equals(this.table.at("/index/buckets"))) {
            throw new IOException("the table has other columns or buckets now; the task begins again with these");
        }
        return instant;
    }

    /** Announce files before they are written. */
    void mark(JsonNode instant, ArrayNode markers) throws IOException {
        ObjectNode body = Server.JSON.createObjectNode().put("writer", instant.get("writer").asText());
        body.set("markers", markers);
        this.server.post(this.pathOf(instant) + "/markers", body);
    }

    /** What the file groups of some buckets have, in the order of the question. */
    JsonNode fileGroups(ArrayNode buckets) throws IOException {
        ObjectNode body = Server.JSON.createObjectNode();
        body.set("buckets", buckets);
        return this.server.post(this.path + "/file-groups", body).get("file_groups");
    }

    /** Report files of a task. With the last batch, the task is ready for the next barrier. */
    void report(JsonNode instant, String task, long attempt, long checkpoint, ArrayNode writeStats, boolean lastBatch)
            throws IOException {
        ObjectNode body = this.body(this.epoch).put("task", task).put("attempt", attempt).put("checkpoint", checkpoint);
        body.put("requested_time", instant.get("requested_time").asText()).put("last_batch", lastBatch);
        body.set("write_stats", writeStats);
        this.server.post(this.stream + "/write-metadata", body);
    }

    /** Acknowledge a checkpoint: all instants of earlier checkpoints complete. May be repeated. */
    void complete(long checkpoint) throws IOException {
        this.complete(this.epoch, checkpoint);
    }

    private void complete(long ofEpoch, long checkpoint) throws IOException {
        for (int round = 0; ; round++) {
            try {
                this.server.post(this.stream + "/complete", this.body(ofEpoch).put("checkpoint", checkpoint));
                return;
            } catch (Refused refused) {
                if (!refused.code.equals("unreconciled-markers") || round == RECONCILIATIONS_MAX) {
                    throw refused;
                }
                this.deleteLeftOver(refused.context.get("checkpoint_instant").asText(), refused.context.get("files"));
            }
        }
    }

    /** Delete files of failed attempts, which were announced but never reported. The server names some at a time. */
    private void deleteLeftOver(String requestedTime, JsonNode files) throws IOException {
        JsonNode instant = this.server.get(this.path + "/instants/" + requestedTime);
        ObjectNode body = Server.JSON.createObjectNode().put("writer", instant.get("writer").asText());
        body.set("files", files);
        JsonNode deletable = this.server.post(this.pathOf(instant) + "/deletable", body);
        Set<String> refused = new HashSet<>();
        deletable.get("refused").forEach(file -> refused.add(this.folder.pathOf(file).toString()));
        this.folder.checkClaim(deletable);
        ArrayNode deleted = body.putArray("files");
        for (JsonNode file : files) {
            if (!refused.contains(this.folder.pathOf(file).toString())) {
                this.folder.delete(file);
                deleted.add(file);
            }
        }
        if (deleted.isEmpty()) {
            throw new IOException("none of the left-over files of " + requestedTime + " may be deleted: " + deletable);
        }
        this.server.post(this.pathOf(instant) + "/deletions", body);
    }

    /** Renew the lease of the stream in the background, three times in each lease. Every task does it. */
    void startHeartbeats() {
        this.heartbeats = Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task, "chronolake-heartbeat");
            thread.setDaemon(true);
            return thread;
        });
        Runnable renewal = () -> {
            try {
                this.server.post(this.stream + "/heartbeat", this.body(this.epoch));
            } catch (IOException ignored) {
                // If the lease is lost, the next request of the task is refused, with the reason.
            }
        };
        this.heartbeats.scheduleAtFixedRate(renewal, LEASE_SECONDS / 3, LEASE_SECONDS / 3, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        if (this.heartbeats != null) {
            this.heartbeats.shutdownNow();
        }
    }

    private String pathOf(JsonNode instant) {
        return this.path + "/instants/" + instant.get("requested_time").asText();
    }

    private ObjectNode body(long ofEpoch) {
        return Server.JSON.createObjectNode().put("epoch", ofEpoch);
    }
}
