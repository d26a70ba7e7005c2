/* SPDX-License-Identifier: MIT */
#include "sysinfo/proc_maps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct scan {
	const char *at, *end;
	bool bad;
};

static unsigned hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	return 16;
}

/* At least one digit of `base`, at most what fits into 64 bits. */
static uint64_t scan_number(struct scan *s, unsigned base)
{
	const char *first = s->at;
	uint64_t value = 0;

	for (; s->at < s->end; s->at++) {
		unsigned digit = hex_digit(*s->at);

		if (digit >= base)
			break;
		if (value > (UINT64_MAX - digit) / base)
			s->bad = true;
		value = value * base + digit;
	}
	if (s->at == first)
		s->bad = true;
	return value;
}

static void scan_char(struct scan *s, char expected)
{
	if (s->at < s->end && *s->at == expected)
		s->at++;
	else
		s->bad = true;
}

/* One letter of the permissions: `set` when it is there, 0 for `unset_char`. */
static uint32_t scan_letter(struct scan *s, char set_char, char unset_char, uint32_t set)
{
	char c = s->at < s->end ? *s->at++ : '\0';

	if (c != set_char && c != unset_char)
		s->bad = true;
	return c == set_char ? set : 0;
}

static bool map_parse(const char *line, const char *end, struct proc_map *ret)
{
	struct scan s = {line, end, false};
	struct proc_map map = {.start = scan_number(&s, 16)};

	scan_char(&s, '-');
	map.end = scan_number(&s, 16);
	scan_char(&s, ' ');
	map.prot = scan_letter(&s, 'r', '-', PROT_READ);
	map.prot |= scan_letter(&s, 'w', '-', PROT_WRITE);
	map.prot |= scan_letter(&s, 'x', '-', PROT_EXEC);
	map.flags = scan_letter(&s, 's', 'p', MAP_SHARED) ? MAP_SHARED : MAP_PRIVATE;
	scan_char(&s, ' ');
	map.pgoff = scan_number(&s, 16);
	scan_char(&s, ' ');
	map.maj = (uint32_t)scan_number(&s, 16);
	scan_char(&s, ':');
	map.min = (uint32_t)scan_number(&s, 16);
	scan_char(&s, ' ');
	map.ino = scan_number(&s, 10);
	if (s.bad || map.end < map.start)
		return false;
	if (s.at < s.end && *s.at != ' ')
		return false;
	while (s.at < s.end && *s.at == ' ')
		s.at++;
	map.name = (struct span){s.at, (size_t)(s.end - s.at)};
	*ret = map;
	return true;
}

bool proc_maps_next(struct span *text, struct proc_map *ret)
{
	while (text->len > 0) {
		const char *line = text->ptr;
		const char *newline = memchr(line, '\n', text->len);

		if (!newline)
			return false;
		text->len -= (size_t)(newline + 1 - line);
		text->ptr = newline + 1;
		if (map_parse(line, newline, ret))
			return true;
	}
	return false;
}

int proc_map_name(const struct proc_map *map, char *ret, size_t room)
{
	const char *name = map->name.ptr;
	size_t len = 0;

	for (size_t i = 0; i < map->name.len; i++) {
		char c = name[i];

		if (c == '\\' && map->name.len - i >= 4 && !memcmp(name + i, "\\012", 4)) {
			c = '\n';
			i += 3;
		}
		if (len + 1 >= room)
			return -ENAMETOOLONG;
		ret[len++] = c;
	}
	if (room == 0)
		return -ENAMETOOLONG;
	ret[len] = '\0';
	return (int)len;
}
