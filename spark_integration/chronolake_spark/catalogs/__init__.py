"""The Python part of Spark's SQL catalog: a process of its own, which the Java part asks.

The Java part (``spark_integration/java``) has the interfaces of Spark, and decides nothing.
"""
