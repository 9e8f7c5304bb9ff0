package chronolake;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Collection;
import java.util.List;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreWriteTopology;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.types.Row;

/**
 * Upserts rows into a merge-on-read table of Chronolake. Each checkpoint of Flink becomes an instant, exactly once.
 *
 * <p>Everything that a task has written is reported to the server before the task passes a barrier. So the state of the
 * job is small: a {@link StreamPosition} for each task, and what is to be committed is a position too. The rules are
 * those of docs/concepts/streams.md.
 *
 * @param server the URL of a server
 * @param table namespace.table
 * @param stream a name for the job within the table; it must be the same when the job is started again
 * @param flushRows so many rows of a task are written at once, those before a barrier in any case
 */
public record ChronolakeSink(String server, String table, String stream, int flushRows)
        implements Sink<Row>,
                SupportsWriterState<Row, StreamPosition>,
                SupportsCommitter<StreamPosition>,
                SupportsPreWriteTopology<Row> {

    @Override
    public DataStream<Row> addPreWriteTopology(DataStream<Row> rows) {
        // Without checkpoints nothing would say when the rows may become visible.
        if (!rows.getExecutionEnvironment().getCheckpointConfig().isCheckpointingEnabled()) {
            throw new IllegalArgumentException("enable checkpoints: rows become visible when a checkpoint is complete");
        }
        return rows;
    }

    @Override
    public TaskWriter createWriter(WriterInitContext context) throws IOException {
        return this.restoreWriter(context, List.of());
    }

    @Override
    public TaskWriter restoreWriter(WriterInitContext context, Collection<StreamPosition> recovered)
            throws IOException {
        return new TaskWriter(this.coordinator(), this.flushRows, context, recovered);
    }

    @Override
    public Committer<StreamPosition> createCommitter(CommitterInitContext context) throws IOException {
        return new Acknowledger(this.coordinator(), context);
    }

    private Coordinator coordinator() throws IOException {
        return new Coordinator(this.server, this.table, this.stream);
    }

    @Override
    public SimpleVersionedSerializer<StreamPosition> getWriterStateSerializer() {
        return new PositionSerializer();
    }

    @Override
    public SimpleVersionedSerializer<StreamPosition> getCommittableSerializer() {
        return new PositionSerializer();
    }

    private static final class PositionSerializer implements SimpleVersionedSerializer<StreamPosition> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(StreamPosition position) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeUTF(position.job());
            out.writeInt(position.tasks());
            out.writeLong(position.epoch());
            out.writeLong(position.checkpoint());
            return bytes.toByteArray();
        }

        @Override
        public StreamPosition deserialize(int version, byte[] bytes) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            return new StreamPosition(in.readUTF(), in.readInt(), in.readLong(), in.readLong());
        }
    }
}
