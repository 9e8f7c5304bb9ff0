package chronolake;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * One task of the sink: appends its rows to log files.
 *
 * <p>Flink calls {@code write} for each row. Before each barrier n it calls {@code flush}, {@code prepareCommit} and
 * {@code snapshotState(n)}, in this order. When checkpoint n is complete, it commits what {@code prepareCommit} gave.
 */
final class TaskWriter implements StatefulSinkWriter<Row, StreamPosition>, CommittingSinkWriter<Row, StreamPosition> {
    private static final int FILES_MAX = 1_000;

    private final Coordinator coordinator;
    private final int flushRows;
    private final LogFiles logFiles;
    private final String task;
    private final long attempt;
    private final Map<FileGroup, List<LogFiles.Encoded>> buffer = new LinkedHashMap<>();
    private int bufferedRows;
    private int flushes;
    private long writtenRows;
    /** The id of the last barrier that this task has passed. */
    private long checkpoint;
    /** The instant of that checkpoint, once something is written into it. */
    private JsonNode instant;

    TaskWriter(
            Coordinator coordinator, int flushRows, WriterInitContext context, Collection<StreamPosition> recovered)
            throws IOException {
        FileGroup.refuseOthers(coordinator.table);
        this.coordinator = coordinator;
        this.flushRows = flushRows;
        this.logFiles = new LogFiles(coordinator.table);
        this.task = String.valueOf(context.getTaskInfo().getIndexOfThisSubtask());
        this.checkpoint = context.getRestoredCheckpointId().orElse(StreamPosition.NO_CHECKPOINT);
        coordinator.join(context, recovered.stream().findAny().orElse(null));
        // Always: the number of attempts that Flink counts begins at 0 again when the job manager fails over.
        this.attempt = coordinator.restartTask(this.task, context.getRestoredCheckpointId());
        coordinator.startHeartbeats();
    }

    @Override
    public void write(Row row, Context context) throws IOException {
        if (row.getKind() == RowKind.UPDATE_BEFORE) {
            return;
        }
        if (row.getKind() == RowKind.DELETE) {
            throw new IOException("this example writes no deletes: " + row);
        }
        String key = FileGroup.keyOf(this.coordinator.table, row);
        FileGroup group = FileGroup.of(this.coordinator.table, row, key);
        // Encoded at once, because Flink may use the row object again.
        this.buffer.computeIfAbsent(group, none -> new ArrayList<>())
                .add(new LogFiles.Encoded(key, this.logFiles.encode(row)));
        if (++this.bufferedRows >= this.flushRows || this.buffer.size() >= FILES_MAX) {
            this.writeFiles(false);
        }
    }

    @Override
    public void flush(boolean endOfInput) throws IOException {
        // Nothing is special about the end of the input: Flink takes one more checkpoint after it.
        if (this.instant != null || !this.buffer.isEmpty()) {
            this.writeFiles(true);
        }
    }

    @Override
    public Collection<StreamPosition> prepareCommit() {
        if (this.instant == null) {
            return List.of();
        }
        this.instant = null;
        return List.of(this.coordinator.position(this.checkpoint));
    }

    @Override
    public List<StreamPosition> snapshotState(long checkpointId) {
        this.checkpoint = checkpointId;
        return List.of(this.coordinator.position(checkpointId));
    }

    @Override
    public void close() {
        this.coordinator.close();
    }

    /** Write the buffer into the instant of the checkpoint, and report the files. They stay invisible. */
    private void writeFiles(boolean lastBatch) throws IOException {
        if (this.instant == null) {
            this.instant = this.coordinator.instant(this.task, this.attempt, this.checkpoint);
        }
        ArrayNode writeStats = Server.JSON.createArrayNode();
        if (!this.buffer.isEmpty()) {
            // Task, flush, attempt: no two files of an instant have the same.
            String token = this.task + "-" + this.flushes++ + "-" + this.attempt;
            ArrayNode markers = this.markers(token);
            this.coordinator.mark(this.instant, markers);
            for (List<LogFiles.Encoded> records : this.buffer.values()) {
                writeStats.add(this.writeFile(markers.get(writeStats.size()), records));
            }
            this.buffer.clear();
            this.bufferedRows = 0;
        }
        this.coordinator.report(this.instant, this.task, this.attempt, this.checkpoint, writeStats, lastBatch);
    }

    /** The markers of the files to be, one for each file group of the buffer. */
    private ArrayNode markers(String token) throws IOException {
        ArrayNode buckets = Server.JSON.createArrayNode();
        for (FileGroup group : this.buffer.keySet()) {
            buckets.addObject().put("partition_path", group.partitionPath()).put("bucket", group.bucket());
        }
        JsonNode found = this.coordinator.fileGroups(buckets);
        String time = this.instant.get("requested_time").asText();
        ArrayNode markers = Server.JSON.createArrayNode();
        for (FileGroup group : this.buffer.keySet()) {
            String name = "." + group.fileId(found.get(markers.size())) + "_" + time + ".log.1_" + token;
            ObjectNode marker = markers.addObject().put("partition_path", group.partitionPath());
            marker.put("file_name", name).put("kind", "APPEND");
        }
        return markers;
    }

    private ObjectNode writeFile(JsonNode file, List<LogFiles.Encoded> records) throws IOException {
        String time = this.instant.get("requested_time").asText();
        byte[] content = this.logFiles.file(time, this.task, this.writtenRows, file, records);
        this.writtenRows += records.size();
        this.coordinator.folder.create(file, content);
        String name = file.get("file_name").asText();
        ObjectNode writeStat = Server.JSON.createObjectNode().put("file_name", name).put("size_bytes", content.length);
        writeStat.put("partition_path", file.get("partition_path").asText());
        writeStat.put("file_id", name.substring(1, name.indexOf('_')));
        // Nothing is looked up, so all records count as updates.
        return writeStat.put("records", records.size()).put("updates", records.size());
    }
}
