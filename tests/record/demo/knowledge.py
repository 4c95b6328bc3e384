"""The help centre of an invented maker of garden and kitchen devices, written for these recordings."""

from __future__ import annotations

DOCUMENTS: dict[str, str] = {
    "returns/window": (
        "You can return any Acme device within 30 days of delivery. The device must be complete and come with all "
        "its accessories; the original box is welcome but not required. Refunds go back to the payment method of "
        "the order within five working days after the parcel reaches our warehouse in Gent."
    ),
    "returns/how": (
        "To return a device, open Orders in your Acme account, choose the order and press Start return. We send a "
        "prepaid label by e-mail. Hand the parcel in at any post office within 14 days; the label expires after "
        "that."
    ),
    "returns/opened-filters": (
        "For reasons of hygiene, water filters and seals cannot be returned once their packaging has been opened. "
        "Unopened filters follow the ordinary 30-day rule. Faulty filters are replaced free of charge."
    ),
    "warranty/length": (
        "Every Acme device carries a warranty of three years from the date of delivery. Batteries are covered for "
        "one year. Register the serial number in your account to add a fourth year at no cost; registration must "
        "happen within 90 days of delivery."
    ),
    "warranty/exclusions": (
        "The warranty does not cover limescale damage, drops, or use with supplies of other makers. Opening the "
        "housing of a Brewster kettle ends its warranty. Normal wear of brushes and seals is not a defect."
    ),
    "shipping/times": (
        "Standard shipping takes two to four working days within Belgium and the Netherlands and five to eight "
        "working days elsewhere in Europe. Express orders placed before noon leave the same day and arrive on the "
        "next working day. We do not ship to post-office boxes."
    ),
    "shipping/cost": (
        "Standard shipping is free from an order value of 60 euros; below that it costs 4.90 euros. Express "
        "shipping costs 11.50 euros whatever the order value. Spare parts under 200 grams always travel free as a "
        "letter."
    ),
    "shipping/lost": (
        "If tracking shows no movement for seven days, report the parcel as lost under Orders. We start a search "
        "with the carrier, which takes up to ten days. After that you choose between a new parcel and your money "
        "back."
    ),
    "orders/change": (
        "An order can be changed or cancelled until it is packed, usually within two hours. After packing, refuse "
        "the parcel at the door or return it once it has arrived. Changing the delivery address is possible until "
        "the carrier has collected the parcel."
    ),
    "orders/invoice": (
        "Invoices are found as PDF under Orders. To put a company name and VAT number on the invoice, add them to "
        "your account before ordering. Invoices cannot be changed after the order has been packed."
    ),
    "payment/methods": (
        "We accept Visa, Mastercard, Bancontact, iDEAL and bank transfer. Orders paid by bank transfer are packed "
        "when the money has arrived, usually after two working days. Cash on delivery is not available."
    ),
    "payment/instalments": (
        "Orders from 150 euros can be paid in three instalments without interest. The first instalment is due at "
        "checkout, the others after 30 and 60 days. A missed instalment costs a fee of 8 euros."
    ),
    "kettle/descale": (
        "Descale the Brewster kettle every six weeks, or when the orange lamp blinks. Fill it to the half-litre "
        "mark with water and one sachet of citric acid, press the Descale button, and wait for 20 minutes. Rinse "
        "it twice. Do not use vinegar: it attacks the seal."
    ),
    "kettle/temperature": (
        "The Brewster kettle heats to 40, 70, 80, 95 or 100 degrees. Turn the ring to choose; the temperature is "
        "held for 30 minutes after boiling. To switch between Celsius and Fahrenheit hold the ring for five "
        "seconds."
    ),
    "kettle/errors": (
        "Code E1 on the Brewster kettle means that it was switched on without water; let it cool for ten minutes. "
        "Code E3 means that the temperature sensor has failed and the kettle must be sent in. Code E5 appears "
        "when the base is wet."
    ),
    "mower/mapping": (
        "The Meadow mower maps your garden on its first run. Walk it once along the edge in Learn mode; areas up "
        "to 800 square metres are supported. Redraw the map whenever a flower bed is moved. Up to four no-go "
        "zones can be set in the Acme app."
    ),
    "mower/rain": (
        "The Meadow mower has a rain sensor and returns to its dock when it gets wet. It starts again three hours "
        "after the rain has stopped. The delay can be set between one and twelve hours in the app under Weather."
    ),
    "mower/blades": (
        "Replace the three blades of the Meadow mower every two months in season. Switch the mower off with the "
        "red key before turning it over and wear gloves. A set of nine blades with screws has the part number "
        "MB-9."
    ),
    "mower/theft": (
        "The Meadow mower is protected by a four-digit PIN and an alarm of 85 decibels that sounds when it is "
        "lifted. Its position is shown in the Acme app when the GPS module, sold separately, is fitted. A stolen "
        "mower can be locked for good by our support."
    ),
    "app/pairing": (
        "To pair a device, open the Acme app, press Add device and hold the device's Link button until the blue "
        "lamp blinks. Only Wi-Fi networks on 2.4 GHz are supported during pairing. The phone must be in the same "
        "network and Bluetooth must be on."
    ),
    "app/sharing": (
        "A device can be shared with up to five people. Open the device in the Acme app, choose Share and enter "
        "their e-mail address. Guests can use the device but cannot change its settings or remove it."
    ),
    "app/offline": (
        "Without internet the devices go on working with their last schedule. Changes made in the app are sent "
        "when the connection is back. Notifications older than 24 hours are not delivered."
    ),
    "account/password": (
        "To reset your password press Forgot password on the sign-in page. The link in the e-mail is valid for "
        "one hour. After five wrong passwords the account is locked for 15 minutes."
    ),
    "account/delete": (
        "You can delete your account under Profile, Privacy. Personal data is erased after 14 days; invoices are "
        "kept for seven years because the law asks for it. Devices registered to the account lose their fourth "
        "year of warranty."
    ),
    "support/contact": (
        "Support answers by chat and telephone on working days from 8:00 to 18:00 and on Saturdays from 9:00 to "
        "13:00. E-mails are answered within one working day. Have the serial number at hand: it is printed under "
        "the device."
    ),
    "support/repair": (
        "Repairs take about eight working days in our workshop in Gent. Outside of the warranty an estimate costs "
        "19 euros, which is set off against the repair. Spare parts are kept for ten years after the last sale of "
        "a device."
    ),
}
"""Text by path of its page."""
