// SPDX-License-Identifier: MIT
// Exceptions through several frames, virtual calls, containers.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct node {
	virtual ~node() = default;
	virtual long visit(int depth) = 0;
};

struct leaf : node {
	long visit(int depth) override
	{
		if (depth % 3 == 0)
			throw std::runtime_error("depth " + std::to_string(depth));
		return depth;
	}
};

struct inner : node {
	node *next;
	explicit inner(node *n) : next(n) {}
	long visit(int depth) override
	{
		std::vector<int> numbers(64, depth);
		std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return (a ^ 5) < (b ^ 5); });
		return next->visit(depth + 1) + numbers[0];
	}
};

int main()
{
	leaf bottom;
	inner a(&bottom), b(&a), c(&b), d(&c);
	std::map<std::string, long> seen;
	for (int i = 0; i < 2000000; i++) {
		try {
			seen[std::to_string(i % 100)] += d.visit(i);
		} catch (const std::exception &e) {
			seen[e.what()]++;
		}
		if (seen.size() > 1000)
			seen.clear();
	}
	return seen.empty();
}
