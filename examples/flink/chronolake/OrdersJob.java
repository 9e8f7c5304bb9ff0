package chronolake;

import java.time.Duration;
import java.time.LocalDate;
import java.util.function.UnaryOperator;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.ParameterTool;

/**
 * Changes of orders, made by Flink's generator, as a stream into a table. {@code flink_orders.py} creates the table and
 * starts the job.
 *
 * <p>Change n is of the order n modulo {@code keys}. So after all changes the table has the last {@code keys} of them.
 */
public final class OrdersJob {
    private static final TypeInformation<Row> ORDER = Types.ROW_NAMED(
            new String[] {"id", "n", "day", "note"}, Types.LONG, Types.LONG, Types.LOCAL_DATE, Types.STRING);
    private static final LocalDate FIRST_DAY = LocalDate.of(2026, 1, 1);

    private OrdersJob() {}

    public static void main(String[] args) throws Exception {
        run(ParameterTool.fromArgs(args), UnaryOperator.identity());
    }

    /** Run the job to its end; {@code between} may change what is between source and sink. */
    static void run(ParameterTool options, UnaryOperator<DataStream<Row>> between) throws Exception {
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration(options));
        environment.setParallelism(options.getInt("tasks", 2));
        long keys = options.getLong("keys", 1000);
        DataGeneratorSource<Row> changes = new DataGeneratorSource<>(
                n -> order(n, keys),
                options.getLong("rows", 20_000),
                RateLimiterStrategy.perSecond(options.getDouble("rate", 1_000)),
                ORDER);
        DataStream<Row> orders = environment.fromSource(changes, WatermarkStrategy.noWatermarks(), "changes");
        if (!options.has("forward")) {
            // One task has all changes of an order, in their order.
            orders = orders.keyBy(order -> (Long) order.getField("id"), Types.LONG);
        }
        ChronolakeSink sink = new ChronolakeSink(
                options.getRequired("server"),
                options.getRequired("table"),
                options.get("stream", "orders-job"),
                options.getInt("flush-rows", 100_000));
        between.apply(orders).sinkTo(sink).name("chronolake");
        environment.execute("orders");
    }

    private static Configuration configuration(ParameterTool options) {
        Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(1));
        configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, options.getRequired("checkpoints"));
        configuration.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 1000);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(200));
        if (options.has("restore")) {
            configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, options.get("restore"));
        }
        // Options of Flink may be given too, such as --execution.checkpointing.interval 5s.
        configuration.addAll(options.getConfiguration());
        return configuration;
    }

    private static Row order(long n, long keys) {
        Row order = Row.withNames(RowKind.INSERT);
        order.setField("id", n % keys);
        order.setField("n", n);
        order.setField("day", FIRST_DAY.plusDays(n % keys % 3));
        order.setField("note", n % 5 == 0 ? null : "change " + n);
        return order;
    }
}
