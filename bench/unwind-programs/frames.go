// SPDX-License-Identifier: MIT
package main

import (
	"fmt"
	"sort"
	"strings"
)

//go:noinline
func deep(depth int, words []string) int {
	if depth == 0 {
		sort.Slice(words, func(i, j int) bool { return words[i] < words[j] })
		return len(strings.Join(words, ","))
	}
	return deep(depth-1, words) + 1
}

func main() {
	results := make(chan int)
	for worker := 0; worker < 2; worker++ {
		go func(worker int) {
			sum := 0
			for i := 0; i < 30000000; i++ {
				words := make([]string, 40)
				for k := range words {
					words[k] = fmt.Sprint((i*7919 + k*104729) % 1000)
				}
				sum += deep(i%20, words)
			}
			results <- sum
		}(worker)
	}
	fmt.Println(<-results + <-results)
}
