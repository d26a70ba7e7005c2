// SPDX-License-Identifier: MIT
import java.util.*;

public class Frames {
    static int deep(int depth, List<String> words) {
        if (depth == 0) {
            words.sort(Comparator.reverseOrder());
            return String.join(",", words).length();
        }
        return deep(depth - 1, words) + 1;
    }

    public static void main(String[] args) {
        long sum = 0;
        for (int i = 0; i < 60000000; i++) {
            List<String> words = new ArrayList<>();
            for (int k = 0; k < 40; k++)
                words.add(Integer.toString((i * 7919 + k * 104729) % 1000));
            sum += deep(i % 20, words);
        }
        System.out.println(sum);
    }
}
