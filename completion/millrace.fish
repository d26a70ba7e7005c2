# SPDX-License-Identifier: MIT
# Completion of millrace for fish. What there is to complete is asked of the program: `millrace --complete [COMMAND]`.

# The words of the command line in front of the cursor, behind "millrace".
function __millrace_words
    set -l words (commandline -opc)
    set -e words[1]
    test (count $words) -eq 0; or printf '%s\n' $words
end

# The argument that the last word in front of the cursor takes, nothing for none. One in brackets follows "=" only.
function __millrace_argument
    set -l words (__millrace_words)
    test (count $words) -ge 2; or return
    for line in (millrace --complete $words[1] 2>/dev/null)
        set -l pair (string split \t -- $line)
        test "$pair[1]" = "$words[-1]"; and string match -v '[*' -- $pair[2]
    end
end

# The words that this argument can be, or its parts between commas can; nothing where it is a number or a name.
function __millrace_values
    set -l words (__millrace_words)
    set -l values (millrace --complete $words[1] $words[-1] 2>/dev/null)
    if string match -q '*,*' -- (__millrace_argument)
        set -l list (string match -r '^.*,' -- (commandline -ct))
        string replace -r '^' -- "$list" $values
    else
        string join \n -- $values
    end
end

# The command that is recorded, up to the cursor: behind "--", or from the first word that is no option and no argument.
# Nothing while an option is completed.
function __millrace_recorded
    set -l words (__millrace_words) (commandline -ct)
    test "$words[1]" = record; or return
    set -l options (millrace --complete record 2>/dev/null)
    set -l skip 0
    for i in (seq 2 (count $words))
        if test $skip = 1
            set skip 0
        else if test "$words[$i]" = --
            test $i -lt (count $words); and string join ' ' -- $words[(math $i + 1)..]
            return
        else if string match -q -- '-*' $words[$i]
            string match -qr -- '^'(string escape --style=regex -- $words[$i])'\t[^\[]' $options; and set skip 1
        else
            test $i -lt (count $words) -o -z "$(__millrace_argument)"; and string join ' ' -- $words[$i..]
            return
        end
    end
end

complete -c millrace -f
complete -c millrace -n 'test (count (__millrace_words)) -eq 0' -a '(millrace --complete 2>/dev/null)'
complete -c millrace -n 'test "$(__millrace_words)" = help' -a '(millrace --complete 2>/dev/null | string match -v -- "-*")'
complete -c millrace -n 'test (count (__millrace_words)) -ge 1; and test -z "$(__millrace_recorded)$(__millrace_argument)"' \
    -a '(millrace --complete (__millrace_words)[1] 2>/dev/null)'
complete -c millrace -n 'string match -qr "FILE|DIR" -- (__millrace_argument)' -F
complete -c millrace -n 'test -n "$(__millrace_argument)"' -a '(__millrace_values)'
complete -c millrace -n 'test (count (__millrace_words)) -ge 1; and not contains -- (__millrace_words)[1] record help; \
    and test -z "$(__millrace_argument)"' -F
complete -c millrace -n 'test -n "$(__millrace_recorded)"' -a '(complete -C "$(__millrace_recorded)")'
