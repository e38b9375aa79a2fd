//! Tests of time and random numbers: sums saturate, and jitter is the same in every replay.
use crate::support::*;
use stoker_core::*;

/// The numbers published by the authors of splitmix64. A generator that had lost some of its bits would
/// still look random.
#[test]
fn the_generator_is_splitmix64() {
    let mut rng = Rng::new(1_234_567);
    assert_eq!(
        [0; 5].map(|_| rng.next_u64()),
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ]
    );
}

#[test]
fn random_numbers_stay_below_their_limit() {
    let mut rng = Rng::new(5);
    let mut seen = [0; 4];
    for _ in 0..400 {
        seen[rng.below(4) as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 60), "{seen:?}");
    assert_eq!(rng.below(0), 0);
}

#[test]
fn time_arithmetic_saturates() {
    let now = Time(1_500);
    assert_eq!((now + ms(1), now - ms(1)), (Time(2_500), Time(500)));
    assert_eq!((now + Span::FOREVER, now - secs(1)), (Time::NEVER, Time(0)));
    assert_eq!(
        (now.since(Time(400)), now.since(Time(9_000))),
        (Span(1_100), Span(0))
    );
    assert_eq!((secs(2), ms(1_999).as_millis()), (Span(2_000_000), 1_999));
}
