from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.spark import register
from headrace.spark.errors import SparkSourceError
from headrace.spark.session import CHECKPOINT_MANAGER, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_session_asked_again_is_the_same(spark: SparkSession) -> None:
    assert session("another name").sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.streaming.checkpointFileManagerClass") == CHECKPOINT_MANAGER
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_session_beside_a_users_own_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.spark.session._MARK", "spark.not.set")
    with pytest.raises(SparkSourceError, match=r"headrace\.spark\.register"):
        session("mine")


def test_register_twice_is_fine(spark: SparkSession) -> None:
    register(spark)
    register(spark)
    assert spark.readStream.format("nats").option("subject", "a").load().columns[0] == "stream"
