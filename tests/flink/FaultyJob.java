package chronolake;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.types.Row;
import org.apache.flink.util.ParameterTool;

/** The job of the example, with tasks that fail when they are asked to. */
public final class FaultyJob {
    private FaultyJob() {}

    public static void main(String[] args) throws Exception {
        ParameterTool options = ParameterTool.fromArgs(args);
        String faults = options.getRequired("faults");
        OrdersJob.run(options, orders -> {
            TypeInformation<Row> type = orders.getType();
            return orders.map(new Failing(faults)).returns(type);
        });
    }

    /** Fails at the next row when there is a file with the number of its task, which it removes. */
    private static final class Failing extends RichMapFunction<Row, Row> {
        private final String folder;

        Failing(String folder) {
            this.folder = folder;
        }

        @Override
        public Row map(Row row) throws IOException {
            int task = this.getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            if (Files.deleteIfExists(Path.of(this.folder, "kill-" + task))) {
                throw new IOException("task " + task + " is killed at " + row);
            }
            return row;
        }
    }
}
