"""Searches of the past where a real node of Weaviate has the present."""

from groundline_indexing.feed.feeding import Feeding
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_tests.retriever.past import world_on
from groundline_tests.weaviate.nodes import Cluster
from groundline_weaviate import open_weaviate

LEAVE_27 = "Everyone has 27 days of leave a year."
LEAVE_30 = "Everyone has 30 days of leave a year."
NOTICE = "Notice is given three months ahead."


async def test_the_past_is_found_beside_an_index_of_the_present(database_url: str, one_node: Cluster) -> None:
    settings = one_node.settings("Past")
    async with world_on(database_url, settings) as world, open_weaviate(settings) as weaviate:
        feed = IndexFeed(world.pool)
        feeding = Feeding(feed, WeaviateIndex(weaviate))
        staff = await world.collection("staff")
        await world.store(staff, LEAVE_27, NOTICE)
        then = await world.now()
        await world.store(staff, LEAVE_30, NOTICE)
        while await feeding.round():
            pass

        assert await world.texts(then) == {LEAVE_27, NOTICE}
        assert await world.texts() == {LEAVE_30, NOTICE}
        assert await world.past(staff) == [LEAVE_27]
        assert len(await feed.partitions("staff")) == 1, "the past is not fed"
        await feed.end()
