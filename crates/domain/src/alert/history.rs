//! What a figure was a while ago.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Moment;

/// Points kept for one window, so that what was at its beginning is known to a twentieth of it.
const POINTS: u32 = 20;

/// Two figures over the last while. A figure that does not move takes one point.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
}

#[derive(Debug)]
struct Point {
    at: Moment,
    figures: [u64; 2],
}

impl History {
    /// What the figures were `window` ago, or as long ago as they are known. Takes note of what
    /// they are now.
    pub(super) fn before(&mut self, now: Moment, figures: [u64; 2], window: Duration) -> [u64; 2] {
        let is_new = self
            .points
            .back()
            .is_none_or(|last| last.figures != figures && now.since(last.at) >= window / POINTS);
        if is_new {
            self.points.push_back(Point { at: now, figures });
        }
        // The first point is what was before the window began; all others lie inside it.
        while self.points.get(1).is_some_and(|second| now.since(second.at) >= window) {
            self.points.pop_front();
        }
        debug_assert!(self.points.len() <= POINTS as usize + 2, "points lie closer than allowed");
        self.points.front().map_or(figures, |first| first.figures)
    }

    pub(super) fn clear(&mut self) {
        self.points = VecDeque::new();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn figures_are_known_as_they_were_a_window_ago() {
        let mut history = History::default();
        for minute in 0..=30 {
            let before = history.before(at(minute * 60), [minute, 2 * minute], 10 * MINUTE);
            let expected = minute.saturating_sub(10);
            assert_eq!(before, [expected, 2 * expected], "minute {minute}");
        }
    }

    #[test]
    fn a_window_keeps_few_points_however_often_it_is_asked() {
        let mut history = History::default();
        for second in 0..3_600 {
            let [before, _] = history.before(at(second), [second, 0], 10 * MINUTE);
            let exact = second.saturating_sub(600);
            assert!(before <= exact && exact - before <= 30, "{before} {exact}");
            assert!(history.len() <= 22);
        }
    }

    #[test]
    fn what_does_not_move_takes_one_point() {
        let mut history = History::default();
        for minute in 0..100 {
            assert_eq!(history.before(at(minute * 60), [7, 7], MINUTE), [7, 7]);
        }
        assert_eq!(history.len(), 1);
        assert_eq!(history.before(at(6_000), [9, 7], MINUTE), [7, 7]);
        assert_eq!(history.before(at(6_030), [9, 7], MINUTE), [7, 7]);
        assert_eq!(history.before(at(6_060), [9, 7], MINUTE), [9, 7]);
    }
}
