// SPDX-License-Identifier: MIT
// Closures, sorting, panics that are caught.
use std::collections::HashMap;
use std::panic;

#[inline(never)]
fn deep(depth: u32, words: &mut Vec<String>) -> usize {
    if depth == 0 {
        words.sort_by(|a, b| b.cmp(a));
        return words.iter().map(|w| w.len()).sum();
    }
    deep(depth - 1, words) + 1
}

fn main() {
    let mut seen: HashMap<String, usize> = HashMap::new();
    panic::set_hook(Box::new(|_| {}));
    for i in 0..60000000u32 {
        let mut words: Vec<String> = (0..40).map(|k| format!("{}", (i * 7919 + k * 104729) % 1000)).collect();
        *seen.entry(words[0].clone()).or_insert(0) += deep(i % 20, &mut words);
        if i % 16 == 0 {
            let _ = panic::catch_unwind(|| if i % 3 == 0 { panic!("{}", i) });
        }
    }
    println!("{}", seen.len());
}
