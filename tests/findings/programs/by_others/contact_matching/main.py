"""Matches attendees of an event against the contact store."""
import tempfile
from pathlib import Path

from sample import event_list, existing_contacts
from store import ContactStore

CONTACTS = 20_000
ATTENDEES = 1_600


def match_attendees(store, attendees):
    matched = renamed = created = 0
    for email, name, company in attendees:
        found = store.find(email)
        if found is None:
            store.add(email, name, company)
            created += 1
            continue
        contact_id, known_name, known_company = found
        store.touch(contact_id)
        matched += 1
        if (known_name, known_company) != (name, company):
            renamed += 1
    return matched, renamed, created


def main():
    contacts = existing_contacts(CONTACTS)
    attendees = event_list(contacts, ATTENDEES)
    with tempfile.TemporaryDirectory() as folder:
        store = ContactStore(Path(folder) / "contacts.db")
        store.load(contacts)
        matched, renamed, created = match_attendees(store, attendees)
        count, touches, busiest = store.totals()
        store.close()
    print(f"matched={matched} renamed={renamed} created={created}")
    print(f"contacts={count} touches={touches} busiest={busiest}")


if __name__ == "__main__":
    main()
