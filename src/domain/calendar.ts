// Days and months of a time zone, for sums of money. Costs and limits use them.

export interface Calendar {
  /** The name of the time zone. */
  zone: string;
  /** `YYYY-MM-DD` of an instant. */
  dayOf: (at: number) => string;
  /** The first instant of the next day: 23, 24 or 25 hours after the start of this one. */
  nextDay: (at: number) => number;
}

const two = (n: number): string => String(n).padStart(2, "0");

/** The calendar of this computer's time zone. */
export const localCalendar: Calendar = {
  get zone() {
    return new Intl.DateTimeFormat().resolvedOptions().timeZone;
  },
  dayOf: (at) => {
    const date = new Date(at);
    return `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  },
  nextDay: (at) => {
    const date = new Date(at);
    return new Date(date.getFullYear(), date.getMonth(), date.getDate() + 1).getTime();
  },
};

export const monthOf = (day: string): string => day.slice(0, 7);
