package shop.books;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;

/** The books: every movement of money, never changed after it was written. */
public final class Ledger {
    public static final int FISCAL_YEAR_START_MONTH = 4;

    private static final long LOCK_AFTER_DAYS = 10;

    private final List<Entry> entries = new ArrayList<>();

    public record Entry(LocalDate day, String account, long cents, String memo) {}

    /** Writes an entry; days that are locked are refused. */
    public void post(Entry entry, LocalDate today) {
        if (entry.day().plusDays(LOCK_AFTER_DAYS).isBefore(today)) {
            throw new IllegalStateException("LEDGER_LOCKED: " + entry.day());
        }
        entries.add(entry);
    }

    public long balance(String account) {
        return entries.stream().filter(e -> e.account().equals(account)).mapToLong(Entry::cents).sum();
    }

    /** Undoes an entry by writing its opposite with the memo "storno". */
    public void reverse(Entry entry, LocalDate today) {
        post(new Entry(today, entry.account(), -entry.cents(), "storno"), today);
    }

    public static int fiscalYear(LocalDate day) {
        return day.getMonthValue() >= FISCAL_YEAR_START_MONTH ? day.getYear() : day.getYear() - 1;
    }
}
