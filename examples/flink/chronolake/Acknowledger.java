package chronolake;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Collection;
import java.util.Comparator;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells the server that checkpoints are complete, which completes their instants.
 *
 * <p>Flink calls it once per task and checkpoint, and again after a restart, then before the writer of the task begins.
 * Any one of these calls suffices, and all may be repeated.
 */
final class Acknowledger implements Committer<StreamPosition> {
    private static final Logger LOG = LoggerFactory.getLogger(Acknowledger.class);

    private final Coordinator coordinator;
    private final CommitterInitContext context;

    Acknowledger(Coordinator coordinator, CommitterInitContext context) {
        this.coordinator = coordinator;
        this.context = context;
    }

    @Override
    public void commit(Collection<CommitRequest<StreamPosition>> requests) throws IOException {
        // The last position covers the earlier ones.
        StreamPosition last = requests.stream()
                .map(CommitRequest::getCommittable)
                .max(Comparator.comparingLong(StreamPosition::checkpoint))
                .orElseThrow();
        try {
            this.coordinator.join(this.context, last);
            // All tasks have passed a later barrier than this one: that is why Flink commits. It does not say which.
            this.coordinator.complete(last.checkpoint() + 1);
        } catch (InterruptedIOException cancelled) {
            throw cancelled;
        } catch (IOException failure) {
            // Flink tries again ten times. After that, and after any other refusal, the task fails, and commits again
            // when it is restored. Never signal a failure here instead: Flink would drop the acknowledgement.
            if (failure instanceof Refused refused && !refused.isTemporary()) {
                throw refused;
            }
            LOG.warn("checkpoint {} is not acknowledged yet: {}", last.checkpoint() + 1, failure.getMessage());
            requests.forEach(CommitRequest::retryLater);
        }
    }

    @Override
    public void close() {}
}
