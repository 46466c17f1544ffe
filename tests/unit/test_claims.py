"""True and false statements about small passages, in the forms that models write."""

import pytest

from docstokg.contracts.state import Block
from docstokg.domain.answer.grounding import statements
from docstokg.usecases.check_answer import ground_sentences

SOURCES = {
    "orchard": (
        "Orchard handbook",
        (
            "Apple trees are pruned in February, cherry trees after the harvest in July. A young "
            "tree gets 12 litres of water a week during its first summer and 5 litres during its "
            "second. Grafts are tied with raffia and sealed with wax. The press yields 65 litres "
            "of juice from 100 kg of apples; pears yield 58 litres. Cider rests in oak barrels "
            "for nine months, perry in steel tanks for four. Windfall fruit is never sold fresh. "
            "Ladders are kept in the north shed, sprayers in the south shed. The cold store holds "
            "2 °C in winter and 4 °C in summer."
        ),
    ),
    "radio": (
        "Radio set R7 manual",
        (
            "The R7 receives on 26 channels and transmits on 14. The squelch is on when the set "
            "leaves the factory; the scrambler is off. Voice activation is disabled by default "
            "and can be enabled in menu 3. The antenna is screwed on clockwise. The battery lasts "
            "11 hours, the charger fills it in three. A red light means an empty battery, a green "
            "light a full one. The beacon is sent every 30 seconds. Press F1 to open the log and "
            "F2 to close it. The set does not support encryption."
        ),
    ),
    "prices": (
        "Prices of the theatre",
        (
            "All prices in euros.\n\n| Seat | Weekday | Weekend | Reduced |\n| --- | --- | --- | "
            "--- |\n| Stalls | 42 | 55 | 30 |\n| Circle | 28 | 36 | 19 |\n| Gallery | 12 | 15 | 8 "
            "|\n\nStudents pay the reduced price. The bar opens one hour before the play."
        ),
    ),
    "kestrel": (
        "Kestrel mission",
        (
            "Kestrel 2 was launched on 9 April 2011 from Kourou and entered orbit on 30 May 2012. "
            "Commander Lena Ostrow flew the module while engineer Pavel Dimic repaired the "
            "antenna. The probe Ida carried a drill, the probe Una a camera. Fuel made up 410 kg "
            "of the mass of 1,020 kg. The mission was extended twice and ended in 2018. Dimic "
            "trained Ostrow. Data rates rose from 12 to 48 kbit per second after the repair. Only "
            "the ground station in Perth could send commands."
        ),
    ),
    "bells": (
        "Bells of Orme",
        (
            "The oldest bell, the Anna bell (BX:00311), hangs in the north tower. The Maria bell "
            "(BX:00542) was cast by Jon Prell in 1644. Jon Prell was taught by his uncle Aage "
            "Lind, who ran the foundry until 1650. All guests may enter the hall, but only guests "
            "over twelve may climb the tower. The rent is due on 5 June; tenants who pay after 5 "
            "July owe a fine of 9 crowns. The foundry employs 96 smiths, of whom 14 are women. "
            "The great bell weighs 3,100 kg and rings at noon, the small bell at six."
        ),
    ),
    "fetchkit": (
        "fetchkit reference",
        (
            "`retries` is the number of attempts made before giving up; the default is 5. `cache` "
            "turns the local cache on; it is on by default. `timeout` sets the seconds to wait "
            "for an answer, thirty unless given. `fetchkit warm` fills the cache, `fetchkit wipe` "
            "empties it. fetchkit sends its log to the console and not to a file. Proxies are "
            "supported, redirects are not."
        ),
    ),
}
TRUE = [
    ("orchard", "Cherry trees are pruned in July after the harvest."),
    ("orchard", "During its second summer a young tree gets five litres a week."),
    ("orchard", "Pears yield 58 litres of juice."),
    ("orchard", "Perry rests in steel tanks for 4 months."),
    ("orchard", "Sprayers are kept in the south shed."),
    ("orchard", "Cider rests in oak barrels for 9 months."),
    ("orchard", "In summer the cold store holds 4 °C."),
    ("orchard", "Windfall fruit is not sold fresh."),
    ("radio", "The R7 transmits on 14 channels."),
    ("radio", "Voice activation is off by default."),
    ("radio", "A green light means a full battery."),
    ("radio", "The charger fills the battery in 3 hours."),
    ("radio", "F1 opens the log."),
    ("radio", "The R7 does not support encryption."),
    ("radio", "The beacon is sent every thirty seconds."),
    ("prices", "A seat in the circle costs 36 euros at the weekend."),
    ("prices", "The reduced price of a gallery seat is 8 euros."),
    ("prices", "Stalls on a weekday cost 42."),
    ("prices", "Students pay the reduced price."),
    ("kestrel", "Kestrel 2 was launched in April 2011."),
    ("kestrel", "Pavel Dimic repaired the antenna."),
    ("kestrel", "Una carried a camera."),
    ("kestrel", "The mission ended in 2018."),
    ("kestrel", "Ostrow was trained by Dimic."),
    ("kestrel", "Kestrel 2 entered orbit on May 30, 2012."),
    ("bells", "The Maria bell (BX:00542) was cast in 1644."),
    ("bells", "Jon Prell was taught by Aage Lind."),
    ("bells", "The rent is due on 5 June."),
    ("bells", "Fourteen of the 96 smiths are women."),
    ("bells", "The small bell rings at six."),
    ("bells", "Only guests over twelve may climb the tower."),
    ("fetchkit", "The default number of attempts is 5."),
    ("fetchkit", "`fetchkit warm` fills the cache."),
    ("fetchkit", "```\n# wait thirty seconds\ntimeout = 30\n```"),
    ("fetchkit", "The cache is on by default."),
    ("fetchkit", "Redirects are not supported."),
    ("fetchkit", "```\n# five attempts are made before giving up\nretries = 5\n```"),
]
FALSE = [
    ("orchard", "Apple trees are pruned in July."),
    ("orchard", "A young tree gets 12 litres a week during its second summer."),
    ("orchard", "Pears yield 65 litres of juice."),
    ("orchard", "Perry rests in oak barrels."),
    ("orchard", "Cider rests in steel tanks for four months."),
    ("orchard", "Ladders are kept in the south shed."),
    ("orchard", "In winter the cold store holds 4 °C."),
    ("orchard", "Windfall fruit is sold fresh."),
    ("orchard", "Cider rests in oak barrels for four months."),
    ("radio", "The R7 transmits on 26 channels."),
    ("radio", "Voice activation is enabled by default."),
    ("radio", "A red light means a full battery."),
    ("radio", "The battery lasts three hours."),
    ("radio", "F2 opens the log."),
    ("radio", "The R7 supports encryption."),
    ("radio", "The scrambler is on when the set leaves the factory."),
    ("radio", "A green light means an empty battery."),
    ("radio", "The beacon is sent every 13 seconds."),
    ("prices", "A seat in the gallery costs 36 at the weekend."),
    ("prices", "Stalls on a weekday cost 55."),
    ("prices", "The reduced price of a circle seat is 8 euros."),
    ("prices", "| Seat | Weekend |\n| --- | --- |\n| Gallery | 36 |"),
    ("prices", "The bar opens two hours before the play."),
    ("kestrel", "Kestrel 2 was launched on 30 May 2012."),
    ("kestrel", "Lena Ostrow repaired the antenna."),
    ("kestrel", "Una carried a drill."),
    ("kestrel", "Ostrow trained Dimic."),
    ("kestrel", "Kestrel 2 entered orbit in 2011."),
    ("kestrel", "Data rates fell after the repair."),
    ("kestrel", "Every ground station could send commands."),
    ("kestrel", "Pavel Dimic flew the module."),
    ("kestrel", "Kestrel 2 was launched on 9 May 2011."),
    ("bells", "The Anna bell (BX:00542) hangs in the north tower."),
    ("bells", "Aage Lind was taught by Jon Prell."),
    ("bells", "All guests may climb the tower."),
    ("bells", "## The rent is due on 5 July"),
    ("bells", "Ninety-six of the smiths are women."),
    ("bells", "The great bell rings at six."),
    ("bells", "The Maria bell hangs in the north tower."),
    ("bells", "Jon Prell ran the foundry until 1650."),
    ("fetchkit", "The cache is off by default."),
    ("fetchkit", "`fetchkit wipe` fills the cache."),
    ("fetchkit", "fetchkit sends its log to a file."),
    ("fetchkit", "Redirects are supported."),
    ("fetchkit", "```\n# the cache is off by default\ncache = true\n```"),
]


def grounded(source: str, text: str) -> bool:
    title, passage = SOURCES[source]
    block = Block(rank=1, uuid="u", text=passage, document_name=title, relevance=1)
    factual = [statement for statement in statements(text) if statement.factual]
    assert factual
    return ground_sentences(text, [[block]] * len(factual)).grounded


@pytest.mark.parametrize(("source", "text"), TRUE)
def test_what_a_passage_says_in_other_words_is_grounded(source: str, text: str) -> None:
    assert grounded(source, text)


def test_hardly_anything_a_passage_says_of_something_else_is() -> None:
    assert sum(grounded(*case) for case in FALSE) <= 4
