"""Programs on the official SDKs, servers and clients, and what is run between them; they know nothing of mcphub."""
