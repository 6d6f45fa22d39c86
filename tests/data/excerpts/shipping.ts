// Carriers, zones and delivery windows.

export const PICKUP_HOUR = 16;

export const MAX_PARCEL_GRAMS = 31500;

export interface Parcel {
  id: string;
  grams: number;
  zone: Zone;
  fragile: boolean;
}

export enum Zone {
  Domestic,
  Continent,
  Overseas,
}

/** Days that a parcel is under way, weekends not counted. */
export function transitDays(zone: Zone): number {
  switch (zone) {
    case Zone.Domestic:
      return 2;
    case Zone.Continent:
      return 5;
    case Zone.Overseas:
      return 14;
  }
}

export class CarrierClient {
  private attempts = 0;
  readonly backoffMillis = 750;

  constructor(private readonly baseUrl: string, private readonly token: string) {}

  /** Books a parcel; a label that was not fetched within 48 hours lapses. */
  async book(parcel: Parcel): Promise<string> {
    if (parcel.grams > MAX_PARCEL_GRAMS) {
      throw new Error(`parcel ${parcel.id} is too heavy`);
    }
    const answer = await fetch(`${this.baseUrl}/labels`, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.token}` },
      body: JSON.stringify(parcel),
    });
    return (await answer.json()).label;
  }

  async track(label: string): Promise<string> {
    this.attempts += 1;
    const answer = await fetch(`${this.baseUrl}/labels/${label}`);
    return (await answer.json()).status;
  }
}

/** Fragile parcels are insured for twice the declared worth, at most 2,000 euros. */
export function insuredWorth(parcel: Parcel, declaredCents: number): number {
  const worth = parcel.fragile ? 2 * declaredCents : declaredCents;
  return Math.min(worth, 200000);
}

export const isLate = (sentOn: Date, zone: Zone, today: Date): boolean => {
  const days = (today.getTime() - sentOn.getTime()) / 86400000;
  return days > transitDays(zone) + 3;
};
