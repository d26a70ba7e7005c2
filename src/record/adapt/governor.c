/* SPDX-License-Identifier: MIT */
#include "record/adapt/governor.h"

#define MS UINT64_C(1000000)

enum { THOROUGH = 9, QUICK = 3, FAST = 1, PLAIN = 0 };
enum { BY_MARKS = 1, BY_CLOCK = 0 };

static const uint64_t FIRST_DELAY_NS = 250 * MS, MOST_DELAY_NS = 16000 * MS;

static uint64_t least(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

static int lower_of(int one, int other)
{
	return one < other ? one : other;
}

void governor_init(struct governor *governor, const struct governor_bounds *bounds)
{
	const struct governor_condition condition = {.level = bounds->level, .delay_ns = FIRST_DELAY_NS};

	*governor = (struct governor){
		.bounds = *bounds,
		.for_rings = {.level = BY_MARKS, .delay_ns = FIRST_DELAY_NS},
		.for_memory = condition,
		.for_cpu = condition,
		.reported_level = bounds->level,
		.next_ns = UINT64_MAX,
	};
	/* What an extent costs at a high level is known when it is too late. */
	if (bounds->cpus)
		governor->for_cpu.level = lower_of(bounds->level, FAST);
}

int governor_level(const struct governor *governor)
{
	return lower_of(governor->for_memory.level, governor->for_cpu.level);
}

/* Raised a moment ago it was raised too early. */
static void lower(struct governor_condition *condition, int level, uint64_t now_ns)
{
	condition->no_reason_ns = 0;
	if (level >= condition->level)
		return;
	condition->level = level;
	if (!condition->raised_ns)
		return;
	bool early = now_ns - condition->raised_ns < 4 * condition->delay_ns;
	condition->delay_ns = early ? least(2 * condition->delay_ns, MOST_DELAY_NS) : FIRST_DELAY_NS;
	condition->raised_ns = 0;
}

/* Each costs about twice as much as the one before, the highest more. */
static int higher_level(int level)
{
	return level < 8 ? level ? 2 * level : FAST : level + 3;
}

static void raise_in_time(struct governor_condition *condition, int level_wanted, uint64_t now_ns)
{
	if (!condition->no_reason_ns)
		condition->no_reason_ns = now_ns;
	if (condition->level == level_wanted || now_ns - condition->no_reason_ns < condition->delay_ns)
		return;
	condition->level = lower_of(higher_level(condition->level), level_wanted);
	condition->no_reason_ns = condition->raised_ns = now_ns;
}

/* Who comes before the mark finds more room left for the time in which it waits for a CPU. */
static void look_at_rings(struct governor *governor, const struct governor_stats *stats)
{
	struct governor_condition *condition = &governor->for_rings;

	if (governor->bounds.cpus && (governor->saved_ns < 0 || governor->interval_ms))
		condition->level = BY_MARKS;
	else if (stats->nr_near_full > governor->seen_near_full)
		lower(condition, BY_CLOCK, stats->now_ns);
	else
		raise_in_time(condition, BY_MARKS, stats->now_ns);
}

/*
 * The more of the memory waits for compressors, the faster: what is left of it lasts until that shows, and where it
 * shows it settles at the level that keeps up. To store takes little less time than the fastest, and much more of the
 * output: only when that was tried.
 */
static int level_for(const struct governor *governor, const struct governor_stats *stats, size_t nr_late)
{
	size_t eighths = nr_late * 8 / (nr_late + stats->nr_free);
	int level = governor->for_memory.level;

	if (eighths >= 7 && level <= FAST && stats->nr_packed > governor->nr_packed_before)
		return PLAIN;
	return lower_of(level, eighths < 5 ? THOROUGH : eighths < 6 ? QUICK : FAST);
}

/*
 * Where the output is what is slow, a lower level would make more of what it has to take: only when more waits to be
 * compressed than to be written. What is compressed, but behind one that is not, waits for that; what is being
 * compressed does not wait.
 */
static void look_at_memory(struct governor *governor, const struct governor_stats *stats)
{
	struct governor_condition *condition = &governor->for_memory;
	size_t nr_late = stats->nr_to_pack + stats->nr_blocked + (stats->nr_free ? 0 : stats->nr_packing);

	if (!stats->nr_extents || !governor->bounds.level)
		return;
	governor->is_memory_short = 3 * nr_late > stats->nr_free && nr_late >= stats->nr_unwritten;
	int before = condition->level;
	if (governor->is_memory_short)
		lower(condition, level_for(governor, stats, nr_late), stats->now_ns);
	else if (stats->nr_to_pack + stats->nr_blocked > stats->nr_extents / 8)
		condition->no_reason_ns = 0;
	else
		raise_in_time(condition, governor->bounds.level, stats->now_ns);
	if (condition->level != before)
		governor->nr_packed_before = stats->nr_packed;
}

/* 1, 2, 3, 4, 6, 8, 12, 16, … */
static unsigned lengthen_interval(unsigned ms)
{
	return ms < 2 ? ms + 1 : ms & (ms - 1) ? ms / 3 * 4 : ms / 2 * 3;
}

static unsigned shorten_interval(unsigned ms)
{
	return ms < 3 ? ms - 1 : ms & (ms - 1) ? ms / 3 * 2 : ms / 4 * 3;
}

/* The longer between two visits, the less often each ring is copied, until it is full each time. */
static unsigned slow_down(unsigned ms, double excess)
{
	enum { MOST_AT_ONCE = 4 };
	double wanted = (ms ? ms : 1) * (excess < MOST_AT_ONCE ? excess : MOST_AT_ONCE);

	do
		ms = lengthen_interval(ms);
	while (ms < wanted && ms < GOVERNOR_LONGEST_INTERVAL_MS);
	return ms < GOVERNOR_LONGEST_INTERVAL_MS ? ms : GOVERNOR_LONGEST_INTERVAL_MS;
}

/*
 * `excess`: how many times as much as should be. First what loses nothing, and then what is still under way has to end.
 */
static void save_cpu(struct governor *governor, const struct governor_stats *stats, double excess)
{
	int level = governor_level(governor);

	if (governor->for_rings.level == BY_CLOCK)
		governor->for_rings.level = BY_MARKS;
	else if (level)
		lower(&governor->for_cpu, level / 2, stats->now_ns);
	else if (!stats->nr_packing)
		governor->interval_ms = slow_down(governor->interval_ms, excess);
}

/* The other way round. What a level costs shows when something was compressed at it. */
static void spend_cpu(struct governor *governor, const struct governor_stats *stats)
{
	if (governor->interval_ms)
		governor->interval_ms = shorten_interval(governor->interval_ms);
	else if (stats->nr_packed > governor->nr_packed)
		raise_in_time(&governor->for_cpu, governor->bounds.level, stats->now_ns);
}

/* CPU time that was not used may be used in a burst; at such an interval each visit is a burst. */
static double most_saved_ns(const struct governor *governor)
{
	return governor->bounds.cpus * (double)((100 + 2 * governor->interval_ms) * MS);
}

/* What is over the bound is taken back within a second, with half of what may be used at most. */
static double target(const struct governor *governor)
{
	double cpus = governor->bounds.cpus, most = cpus + governor->saved_ns / 1e9;

	return most > cpus / 2 ? most : cpus / 2;
}

static void look_at_cpu(struct governor *governor, const struct governor_stats *stats)
{
	static const double EASY = 0.6, QUIET = 0.25; /* a step faster is half as much again */
	double cpus = governor->bounds.cpus, most_saved = most_saved_ns(governor);
	int level = governor->for_cpu.level;

	if (!cpus)
		return;
	if (!governor->seen_ns || stats->now_ns <= governor->seen_ns) {
		governor->saved_ns = most_saved;
		return;
	}
	double ns = (double)(stats->now_ns - governor->seen_ns),
	       used_ns = (double)(stats->cpu_ns - governor->seen_cpu_ns);
	governor->saved_ns += cpus * ns - used_ns;
	bool full = governor->saved_ns >= most_saved;
	if (full)
		governor->saved_ns = most_saved;
	double part = used_ns / ns / target(governor);
	if (governor->saved_ns < 0 && part > 1)
		save_cpu(governor, stats, part);
	else if (full && part < EASY)
		spend_cpu(governor, stats);
	else
		governor->for_cpu.no_reason_ns = 0;
	/* A worker that was woken a moment ago has not begun yet. */
	governor->quiet = full && part < QUIET && ns >= (double)MS * 10 && !governor->interval_ms;
	if (governor->for_cpu.level != level)
		governor->nr_packed = stats->nr_packed;
}

/* Several visits in between, or their cost is not known. */
static uint64_t next_of_cpu(const struct governor *governor, uint64_t now_ns)
{
	enum { SOONEST_MS = 20, LATEST_MS = 1000 };
	uint64_t visits_ms = 4 * governor->interval_ms;

	if (!governor->bounds.cpus || governor->quiet)
		return UINT64_MAX;
	return now_ns + (visits_ms < SOONEST_MS ? SOONEST_MS : least(visits_ms, LATEST_MS)) * MS;
}

static uint64_t next_of_rings(const struct governor *governor, uint64_t now_ns)
{
	const struct governor_condition *condition = &governor->for_rings;

	if (condition->level == BY_MARKS)
		return UINT64_MAX;
	return (condition->no_reason_ns ? condition->no_reason_ns : now_ns) + condition->delay_ns;
}

static uint64_t next_of_memory(const struct governor *governor, uint64_t now_ns)
{
	const struct governor_condition *condition = &governor->for_memory;

	if (governor->is_memory_short)
		return now_ns + (condition->level ? 10 : 50) * MS;
	if (condition->level == governor->bounds.level)
		return UINT64_MAX;
	return condition->no_reason_ns ? condition->no_reason_ns + condition->delay_ns : now_ns + 50 * MS;
}

size_t governor_decide(struct governor *governor, const struct governor_stats *stats,
		       struct governor_action ret[GOVERNOR_MOST_ACTIONS])
{
	unsigned interval_ms = governor->interval_ms;
	int by_marks = governor->for_rings.level;
	size_t nr = 0;

	look_at_memory(governor, stats);
	look_at_cpu(governor, stats);
	look_at_rings(governor, stats);
	governor->seen_ns = stats->now_ns;
	governor->seen_cpu_ns = stats->cpu_ns;
	governor->seen_near_full = stats->nr_near_full;
	governor->next_ns = least(next_of_cpu(governor, stats->now_ns), next_of_memory(governor, stats->now_ns));
	governor->next_ns = least(governor->next_ns, next_of_rings(governor, stats->now_ns));
	int before = governor->reported_level, level = governor->reported_level = governor_level(governor);
	if (level != before)
		ret[nr++] = (struct governor_action){
			.kind = LEDGER_LEVEL_CHANGED, .from = (uint64_t)before, .to = (uint64_t)level};
	if (governor->interval_ms != interval_ms)
		ret[nr++] = (struct governor_action){
			.kind = LEDGER_POLL_INTERVAL, .from = interval_ms * MS, .to = governor->interval_ms * MS};
	if (governor->for_rings.level != by_marks)
		ret[nr++] = (struct governor_action){.kind = LEDGER_FAST_POLL,
						     .from = by_marks ? 0 : GOVERNOR_FAST_POLL_MS * MS,
						     .to = by_marks ? GOVERNOR_FAST_POLL_MS * MS : 0};
	return nr;
}
