// SPDX-License-Identifier: MIT
/** Recurses to a depth, computes there, and says once what the machine has on its stack then: Truth DEPTH */
public class Truth {
    static boolean told;
    static long sum;

    static int tiny(int x) {
        return (x * 7 + 3) & 0xffff;
    }

    static int leaf(int rounds) {
        int sum = 0;
        for (int i = 0; i < rounds; i++)
            sum += tiny(sum + i);
        if (!told) {
            told = true;
            for (StackTraceElement each : new Error().getStackTrace())
                System.out.println("    at " + each.getMethodName());
            System.out.flush();
        }
        return sum;
    }

    static int recurse(int depth, int rounds) {
        return depth > 0 ? recurse(depth - 1, rounds) + 1 : leaf(rounds);
    }

    public static void main(String[] args) {
        for (;;)
            sum += recurse(Integer.parseInt(args[0]), 2000);
    }
}
