"""Callbacks for training frameworks, each in a module of its own that imports its framework only when it is imported.

=========================================  ==============================================
``svc.integrations.transformers``          ``SvcCallback`` for the Hugging Face ``Trainer``
``svc.integrations.lightning``             ``SvcLogger`` for Lightning's ``Trainer``
``svc.integrations.accelerate``            ``SvcTracker``, ``save_state``
``svc.integrations.keras``                 ``SvcCallback``, ``load_latest``
=========================================  ==============================================

They need nothing but ``svc`` and the framework that the script has anyway. Python 3.8 or newer.
"""
