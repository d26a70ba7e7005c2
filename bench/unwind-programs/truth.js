// SPDX-License-Identifier: MIT
// Recurses to a depth, computes there, and says once what V8 has on its stack then: truth.js DEPTH
'use strict';

let told = false;

function tiny(x) {
  return (x * 7 + 3) & 0xffff;
}

function leaf(rounds) {
  let sum = 0;
  for (let i = 0; i < rounds; i++) {
    sum += tiny(sum + i);
  }
  if (!told) {
    told = true;
    Error.stackTraceLimit = Infinity;
    require('fs').writeSync(1, new Error().stack + '\n');
  }
  return sum + JSON.stringify([sum, { rounds, text: 'x'.repeat(sum % 300) }]).length;
}

function recurse(depth, rounds) {
  return depth ? recurse(depth - 1, rounds) + 1 : leaf(rounds);
}

for (;;) {
  recurse(Number(process.argv[2]), 2000);
}
