package chronolake;

/**
 * Where a task is in its stream.
 *
 * @param job the id of the Flink job that opened the stream
 * @param tasks how many tasks wrote when it was opened
 * @param epoch the epoch of that opening, which every request has
 * @param checkpoint the id of the last barrier that the task has passed, -1 before the first
 */
public record StreamPosition(String job, int tasks, long epoch, long checkpoint) {
    static final long NO_CHECKPOINT = -1;
}
